//! Whether this process may set up the kernel's network.

use std::fs;

use super::error::KernelError;

/// The bit of CAP_NET_ADMIN (`linux/capability.h`).
const NET_ADMIN: u32 = 12;

/// Checks that this process may alter interfaces, routes and rules. `ip` cannot be asked: it lets everybody look.
pub(crate) fn check_rights() -> Result<(), KernelError> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    match effective(&status) {
        Some(effective) if effective & (1 << NET_ADMIN) == 0 => Err(KernelError::NoRights),
        // Where the kernel does not say, the first attempt does.
        _ => Ok(()),
    }
}

/// The effective capabilities in what /proc says of a process.
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read() {
        let status = "Name:\tcat\nCapPrm:\t000001ffffffffff\nCapEff:\t0000000000001000\n";
        assert_eq!(effective(status), Some(1 << NET_ADMIN));
        assert_eq!(effective("Name:\tcat\n"), None);
    }
}
