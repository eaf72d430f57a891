//! Rules and routes: packets with a mark of ours go to a socket of this host, or into the TUN.

use std::collections::BTreeSet;

use super::error::TproxyError;
use super::names::Names;
use super::program::Program;

/// Who made a rule or route: nobody else uses this number (`/etc/iproute2/rt_protos`).
const PROTOCOL: u32 = 77;

/// The rules and routes of an instance. Dropping it takes them away.
#[derive(Debug)]
pub(super) struct Routes(Names);

impl Routes {
    /// Makes them. The TUN is there already.
    pub(super) fn create(names: Names, has_ipv6: bool) -> Result<Self, TproxyError> {
        let this = Self(names);
        for family in families(has_ipv6) {
            for arguments in commands(names) {
                Program::Ip.run(&format!("{family} {arguments}"), "")?;
            }
        }
        Ok(this)
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        remove(self.0);
    }
}

fn families(has_ipv6: bool) -> impl Iterator<Item = &'static str> {
    ["-4", "-6"].into_iter().take(1 + usize::from(has_ipv6))
}

fn commands(names: Names) -> [String; 4] {
    let (deliver, hold) = (names.deliver_table(), names.hold_table());
    let rule = |mark: u32, table: u32| {
        format!("rule add fwmark {mark:#x} lookup {table} priority {table} protocol {PROTOCOL}")
    };
    [
        format!("route add local default dev lo table {deliver} protocol {PROTOCOL}"),
        format!("route add default dev {} table {hold} protocol {PROTOCOL}", names.tun()),
        rule(names.deliver(), deliver),
        rule(names.hold(), hold),
    ]
}

/// The tables in which there are rules or routes with our number.
pub(super) fn tables() -> Result<BTreeSet<u32>, TproxyError> {
    let mut tables = BTreeSet::new();
    for family in families(true) {
        // Not every version of `ip rule show` can choose by number.
        let rules = show(&format!("{family} rule show"))?;
        tables.extend(
            rules.lines().filter(|rule| rule.contains(&format!("proto {PROTOCOL}"))).filter_map(table_of),
        );
        let routes = show(&format!("{family} route show table all protocol {PROTOCOL}"))?;
        tables.extend(routes.lines().filter_map(table_of));
    }
    Ok(tables)
}

/// Returns the output of `ip`. It is empty if the kernel lacks the family.
fn show(arguments: &str) -> Result<String, TproxyError> {
    match Program::Ip.run(arguments, "") {
        Err(error @ TproxyError::NoProgram { .. }) => Err(error),
        shown => Ok(shown.unwrap_or_default()),
    }
}

/// The number of the table in a line of `ip rule` or `ip route`.
fn table_of(line: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip_while(|word| !matches!(*word, "lookup" | "table"));
    words.nth(1)?.parse().ok()
}

/// Takes away the rules and routes of an instance, by our number and its tables.
pub(super) fn remove(names: Names) {
    for family in families(true) {
        for table in [names.deliver_table(), names.hold_table()] {
            let rule = format!("{family} rule del lookup {table} priority {table} protocol {PROTOCOL}");
            // There may be several, if several were killed while they began. An error means that there is none.
            while Program::Ip.run(&rule, "").is_ok() {}
            drop(Program::Ip.run(&format!("{family} route flush table {table} protocol {PROTOCOL}"), ""));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_in_what_ip_prints() {
        for (line, table) in [
            ("7700:\tfrom all fwmark 0x57480001 lookup 7700 proto 77", Some(7700)),
            ("local default dev lo table 7702 scope host ", Some(7702)),
            ("default dev whimbrel1 table 7703 metric 1024 pref medium", Some(7703)),
            ("32766:\tfrom all lookup main", None),
            ("default dev x", None),
        ] {
            assert_eq!(table_of(line), table, "{line}");
        }
    }
}
