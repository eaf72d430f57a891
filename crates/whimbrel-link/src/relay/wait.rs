//! Waits for sockets and for a point in time, to the microsecond.
#![allow(unsafe_code, reason = "poll with nanoseconds and the thread's scheduling are libc calls")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::time::Duration;

/// A set of descriptors to wait on, identified by their positions.
#[derive(Debug, Default)]
pub struct Waiter {
    fds: Vec<libc::pollfd>,
}

impl Waiter {
    /// Forgets all descriptors.
    pub fn clear(&mut self) {
        self.fds.clear();
    }

    /// Adds a descriptor to wait on until it is readable.
    pub fn add(&mut self, fd: &impl AsFd) {
        self.fds.push(libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 });
    }

    /// Returns whether the descriptor at `position` was readable when [`wait`](Self::wait) returned.
    pub fn is_readable(&self, position: usize) -> bool {
        self.fds.get(position).is_some_and(|fd| fd.revents != 0)
    }

    /// Waits until a descriptor is readable, or for `timeout`; without a limit if `None`.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        match self.poll(timeout) {
            count if count >= 0 => Ok(()),
            _ => {
                self.fds.iter_mut().for_each(|fd| fd.revents = 0);
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
            }
        }
    }

    #[cfg(not(target_vendor = "apple"))]
    fn poll(&mut self, timeout: Option<libc::timespec>) -> libc::c_int {
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the array has the given length, and the timeout is null or lives across the call. A descriptor
        // closed since it was added is reported as such and not touched.
        unsafe { libc::ppoll(self.fds.as_mut_ptr(), self.fds.len() as libc::nfds_t, timeout, ptr::null()) }
    }

    #[cfg(target_vendor = "apple")]
    fn poll(&mut self, timeout: Option<libc::timespec>) -> libc::c_int {
        let millis = timeout.map_or(-1, |time| {
            (time.tv_sec * 1000 + time.tv_nsec / 1_000_000).min(libc::c_int::MAX.into()) as libc::c_int
        });
        // SAFETY: as above.
        unsafe { libc::poll(self.fds.as_mut_ptr(), self.fds.len() as libc::nfds_t, millis) }
    }
}

/// Asks the system to run this thread on time. It disables timer slack, by which Linux may delay timers by 50 µs to
/// save wake-ups. It also asks for a real-time priority above all ordinary threads, which requires root. A request
/// that is refused has no effect.
pub fn punctual() {
    #[cfg(target_os = "linux")]
    {
        let nanos: libc::c_ulong = 1;
        // The lowest real-time priority: other such threads go first, and the kernel keeps them all from occupying a
        // processor completely.
        // SAFETY: this is a structure of integers, for which zero is a valid value.
        let mut priority: libc::sched_param = unsafe { std::mem::zeroed() };
        priority.sched_priority = 1;
        // SAFETY: both set a property of the calling thread; the structure lives across the call.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, nanos);
            libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    #[test]
    fn wakes_for_the_one_that_can_be_read() {
        let (a, _b) = UnixStream::pair().unwrap();
        let (c, mut d) = UnixStream::pair().unwrap();
        let mut waiter = Waiter::default();
        waiter.add(&a);
        waiter.add(&c);
        d.write_all(b"!").unwrap();
        waiter.wait(None).unwrap();
        assert!(!waiter.is_readable(0) && waiter.is_readable(1) && !waiter.is_readable(2));
    }

    #[test]
    fn waits_no_shorter_than_asked() {
        punctual();
        let start = Instant::now();
        Waiter::default().wait(Some(Duration::from_micros(300))).unwrap();
        assert!(start.elapsed() >= Duration::from_micros(300));
    }
}
