//! What Linux is asked for beyond the standard library.
#![allow(unsafe_code, reason = "namespaces, TUN devices and the death signal are libc calls")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives across the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Puts the calling thread, and it alone, into a new network namespace.
pub(super) fn leave_network() -> io::Result<()> {
    // SAFETY: changes a property of the calling thread.
    done(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

/// Puts the calling thread, and it alone, into that network namespace.
pub(super) fn join_network(namespace: &File) -> io::Result<()> {
    // SAFETY: changes a property of the calling thread.
    done(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// Makes a TUN device in the calling thread's namespace. It is gone when the file is closed. Reads and writes are one IP
/// packet each and do not block.
pub(super) fn tun(name: &str) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: a structure of integers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: this request takes a pointer to such a structure, which lives across the call.
    done(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    Ok(file)
}

/// Called in a process just before it becomes another program: it will be killed when the thread that started it ends.
/// `parent` is the process of that thread.
pub(super) fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: sets a property of the calling process.
    done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    if std::os::unix::process::parent_id() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// Has `prepare` called in the new process. It may only make system calls: other threads' locks are held for ever there.
pub(super) fn before_exec(
    command: &mut std::process::Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the callers in this module's parent make system calls only.
    unsafe { command.pre_exec(prepare) };
}

/// Has a socket keep so many bytes that wait to be read, whatever the system's limit: as root.
pub(super) fn keep_unread(socket: &impl AsRawFd, bytes: libc::c_int) -> io::Result<()> {
    let (value, length) = ((&raw const bytes).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the integer lives across the call.
    done(unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, length)
    })
}

/// Sends a signal to a process.
pub(super) fn signal(process: i32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: touches no memory.
    done(unsafe { libc::kill(process, signal) })
}

/// Whether this process may do what root may.
pub(super) fn is_root() -> bool {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
