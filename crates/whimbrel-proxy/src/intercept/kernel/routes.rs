//! Rules and routes of an instance, which are found by our number and its tables.

use std::collections::BTreeSet;

use super::error::KernelError;
use super::names::Names;
use super::program::Program;

/// Who made a rule or route: nobody else uses this number (`/etc/iproute2/rt_protos`).
pub(in crate::intercept) const PROTOCOL: u32 = 77;

/// The rules and routes of an instance. Dropping it takes them away.
#[derive(Debug)]
pub(in crate::intercept) struct Routes(Names);

impl Routes {
    /// Makes them, by these commands of `ip`. If one fails, nothing is left.
    pub(in crate::intercept) fn create(
        names: Names,
        commands: impl IntoIterator<Item = String>,
    ) -> Result<Self, KernelError> {
        let this = Self(names);
        for arguments in commands {
            Program::Ip.run(&arguments, "")?;
        }
        Ok(this)
    }
}

impl Drop for Routes {
    fn drop(&mut self) {
        remove(self.0);
    }
}

/// The options of `ip` for each family.
pub(in crate::intercept) fn families(has_ipv6: bool) -> impl Iterator<Item = &'static str> {
    ["-4", "-6"].into_iter().take(1 + usize::from(has_ipv6))
}

/// The tables in which there are rules or routes with our number.
pub(in crate::intercept) fn tables() -> Result<BTreeSet<u32>, KernelError> {
    let mut tables = BTreeSet::new();
    for family in families(true) {
        // Not every version of `ip rule show` can choose by number.
        let rules = show(&format!("{family} rule show"))?;
        let ours = rules.lines().filter(|rule| rule.contains(&format!("proto {PROTOCOL}")));
        tables.extend(ours.filter_map(priority_of));
        let routes = show(&format!("{family} route show table all protocol {PROTOCOL}"))?;
        tables.extend(routes.lines().filter_map(table_of));
    }
    Ok(tables)
}

/// Returns the output of `ip`, which is empty if the kernel lacks the family.
fn show(arguments: &str) -> Result<String, KernelError> {
    match Program::Ip.run(arguments, "") {
        Err(error @ KernelError::NoProgram { .. }) => Err(error),
        shown => Ok(shown.unwrap_or_default()),
    }
}

/// The number of the table in a line of `ip rule` or `ip route`.
fn table_of(line: &str) -> Option<u32> {
    let mut words = line.split_whitespace().skip_while(|word| !matches!(*word, "lookup" | "table"));
    words.nth(1)?.parse().ok()
}

/// The priority of a rule, which is that of the table to which it belongs.
fn priority_of(line: &str) -> Option<u32> {
    line.split(':').next()?.trim().parse().ok()
}

/// Takes away the rules and routes of an instance, by our number and its tables.
pub(in crate::intercept) fn remove(names: Names) {
    for family in families(true) {
        for table in [names.deliver_table(), names.hold_table()] {
            let rule = format!("{family} rule del priority {table} protocol {PROTOCOL}");
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
            ("local default dev lo table 7702 scope host ", Some(7702)),
            ("default dev whimbrel1 table 7703 metric 1024 pref medium", Some(7703)),
            ("default dev x", None),
        ] {
            assert_eq!(table_of(line), table, "{line}");
        }
        for (line, priority) in [
            ("7700:\tfrom all fwmark 0x57480001 lookup 7700 proto 77", Some(7700)),
            ("7701:\tfrom all nop proto 77", Some(7701)),
            ("", None),
        ] {
            assert_eq!(priority_of(line), priority, "{line}");
        }
    }
}
