//! Clocks that processes of one machine share, and the processor time this one has used.
#![allow(unsafe_code, reason = "clock_gettime and getrusage are libc calls")]

use std::time::Duration;

use aws_lc_rs::hmac;
use rand::TryRng;
use serde::{Deserialize, Serialize};

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

/// Names a clock to nobody but who reads the same: a hash of its name, of use for one measurement. A boot id would tell strangers which
/// machine this is.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(super) struct ClockMark {
    nonce: [u8; 16],
    hash: [u8; 32],
}

impl ClockMark {
    /// None: there is no randomness to hide the clock with.
    pub(super) fn new(clock: &str) -> Option<Self> {
        let mut nonce = [0; 16];
        rand::rngs::SysRng.try_fill_bytes(&mut nonce).ok()?;
        Some(Self { nonce, hash: keyed(clock, &nonce) })
    }

    /// It was made on the clock of this name.
    pub(super) fn is_of(&self, clock: &str) -> bool {
        keyed(clock, &self.nonce) == self.hash
    }
}

fn keyed(clock: &str, nonce: &[u8]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, clock.as_bytes());
    let mut hash = [0; 32];
    hash.copy_from_slice(hmac::sign(&key, nonce).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_names_the_clock_to_nobody_else() {
        let mark = ClockMark::new("a boot id").unwrap();
        assert!(mark.is_of("a boot id") && !mark.is_of("another"));
        assert_ne!(mark, ClockMark::new("a boot id").unwrap(), "no two measurements can be linked");
        assert!(!serde_json::to_string(&mark).unwrap().contains("boot"));
    }
}
