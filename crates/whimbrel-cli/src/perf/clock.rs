//! Clocks that processes of one machine share, and the processor time this one has used.
#![allow(unsafe_code, reason = "clock_gettime and getrusage are libc calls")]

use std::time::Duration;

/// Nanoseconds of CLOCK_MONOTONIC: the same for all processes of one boot.
pub fn monotonic_ns() -> u64 {
    // SAFETY: all-zero is a valid timespec.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: writes into the timespec given, and fails for no clock that every system has.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// User and system time of this process so far.
pub(super) fn cpu_time() -> Duration {
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes into the rusage given.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Names the clock of [`monotonic_ns`]: two processes that see the same name read the same clock. None where it cannot be known.
pub(super) fn clock_id() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // A time namespace shifts the clock.
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    Some(format!("{} {}", boot.trim(), namespace.display()))
}
