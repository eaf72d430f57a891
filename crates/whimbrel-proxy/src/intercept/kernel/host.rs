//! The abilities and settings of this host.

use std::fs;
use std::io;

use super::error::KernelError;

/// Whether this host has IPv6. Then its loopback has.
pub(in crate::intercept) fn has_ipv6() -> bool {
    fs::read_to_string("/proc/sys/net/ipv6/conf/lo/disable_ipv6").is_ok_and(|off| off.trim() == "0")
}

/// Checks that the kernel forwards what hosts behind these interfaces send. Interfaces may come later.
pub(in crate::intercept) fn check_forwarding(interfaces: &[String]) -> Result<(), KernelError> {
    for name in interfaces {
        let state =
            |family: &str| fs::read_to_string(format!("/proc/sys/net/{family}/conf/{name}/forwarding"));
        let states = [state("ipv4"), state("ipv6")];
        let is_there = states.iter().any(Result::is_ok);
        let forwards = |state: &io::Result<String>| state.as_ref().is_ok_and(|state| state.trim() != "0");
        if is_there && !states.iter().any(forwards) {
            return Err(KernelError::NoForwarding(name.clone()));
        }
    }
    Ok(())
}
