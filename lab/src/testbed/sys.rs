//! Linux calls that the standard library lacks.
#![allow(unsafe_code, reason = "namespaces, TUN devices and the death signal are libc calls")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure lives across the call, which cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Moves the calling thread, and no other, into a new network namespace.
pub(super) fn leave_network() -> io::Result<()> {
    // SAFETY: changes a property of the calling thread.
    done(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

/// Moves the calling thread, and no other, into an existing network namespace.
pub(super) fn join_network(namespace: &File) -> io::Result<()> {
    // SAFETY: changes a property of the calling thread.
    done(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// Creates a TUN device in the calling thread's namespace. It is gone when the file is closed. Each read or write is
/// one IP packet and does not block.
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

/// Has the calling process killed when the thread that started it ends. It is called just before the process becomes
/// another program. `parent` is the process of that thread.
pub(super) fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: sets a property of the calling process.
    done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    if std::os::unix::process::parent_id() == parent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// Has `prepare` called in the new process. It may only make system calls, since locks of other threads stay held there
/// for ever.
pub(super) fn before_exec(
    command: &mut std::process::Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    use std::os::unix::process::CommandExt;
    // SAFETY: the callers in this module's parent make system calls only.
    unsafe { command.pre_exec(prepare) };
}

/// Sets a socket's receive buffer, in bytes, beyond the system's limit. This needs root.
pub(super) fn keep_unread(socket: &impl AsRawFd, bytes: libc::c_int) -> io::Result<()> {
    let (value, length) = ((&raw const bytes).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the integer lives across the call.
    done(unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, length)
    })
}

/// Returns the number of the calling thread.
pub(super) fn thread() -> i32 {
    // SAFETY: cannot fail.
    unsafe { libc::gettid() }
}

/// Sends a signal to a process.
pub(super) fn signal(process: i32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: touches no memory.
    done(unsafe { libc::kill(process, signal) })
}

/// Returns whether this process is privileged.
pub(super) fn is_root() -> bool {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
