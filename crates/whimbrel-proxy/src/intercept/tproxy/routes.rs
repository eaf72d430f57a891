//! Rules and routes of TPROXY: packets with a mark of ours go to a socket of this host, or into the TUN.

use crate::intercept::kernel::{KernelError, Names, PROTOCOL, Tool, families};

/// Makes the rules and routes of an instance. The TUN is there already.
pub(super) fn create(names: Names, has_ipv6: bool) -> Result<(), KernelError> {
    for arguments in commands(names, has_ipv6) {
        Tool::Ip.run(&arguments, "")?;
    }
    Ok(())
}

/// The commands of `ip` that make them.
fn commands(names: Names, has_ipv6: bool) -> impl Iterator<Item = String> {
    let (deliver, hold) = (names.deliver_table(), names.hold_table());
    let rule = |mark: u32, table: u32| {
        format!("rule add fwmark {mark:#x} lookup {table} priority {table} protocol {PROTOCOL}")
    };
    let all = [
        format!("route add local default dev lo table {deliver} protocol {PROTOCOL}"),
        format!("route add default dev {} table {hold} protocol {PROTOCOL}", names.tun()),
        rule(names.deliver(), deliver),
        rule(names.hold(), hold),
    ];
    families(has_ipv6).flat_map(move |family| all.clone().map(|arguments| format!("{family} {arguments}")))
}
