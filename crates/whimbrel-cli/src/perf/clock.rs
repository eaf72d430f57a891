//! Clocks that the processes of one machine share, and the processor time of this process.
#![allow(unsafe_code, reason = "clock_gettime and getrusage are libc calls")]

use std::time::Duration;

use aws_lc_rs::hmac;
use rand::TryRng;
use serde::{Deserialize, Serialize};

/// CLOCK_MONOTONIC in nanoseconds, the same for all processes of one boot.
pub fn monotonic_ns() -> u64 {
    // SAFETY: all-zero is a valid timespec.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it writes into the given timespec, and does not fail for a clock that every system has.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The user and system time of this process so far.
pub(super) fn cpu_time() -> Duration {
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: it writes into the given rusage.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// A name for the clock of [`monotonic_ns`]: two processes with the same name read the same clock. `None` if it
/// cannot be determined.
pub(super) fn clock_id() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // A time namespace shifts the clock.
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    Some(format!("{} {}", boot.trim(), namespace.display()))
}

/// Identifies a clock only to processes that read the same one: a salted hash of its name, for one measurement. A
/// boot id would identify the machine to strangers.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(super) struct ClockMark {
    nonce: [u8; 16],
    hash: [u8; 32],
}

impl ClockMark {
    /// Creates a mark; `None` if there is no randomness to hide the clock with.
    pub(super) fn new(clock: &str) -> Option<Self> {
        let mut nonce = [0; 16];
        rand::rngs::SysRng.try_fill_bytes(&mut nonce).ok()?;
        Some(Self { nonce, hash: keyed(clock, &nonce) })
    }

    /// Returns whether the mark was made on the clock with this name.
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
