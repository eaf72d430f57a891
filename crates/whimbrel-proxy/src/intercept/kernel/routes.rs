//! Rules and routes of an instance, which are found by our number and its tables.

use std::collections::BTreeSet;

use super::error::KernelError;
use super::program::Tool;

/// The protocol number that marks our rules and routes: nobody else uses it (`/etc/iproute2/rt_protos`).
pub(in crate::intercept) const PROTOCOL: u32 = 77;

/// Rules and routes in two tables of an instance. They stay when it is dropped: [`Routes::remove`] takes them away.
#[derive(Debug)]
pub(in crate::intercept) struct Routes {
    tables: [u32; 2],
    /// The commands of `ip` that have made them.
    commands: Vec<String>,
}

impl Routes {
    /// Makes them, by these commands of `ip`. If one fails, nothing is left.
    pub(in crate::intercept) fn create(tables: [u32; 2], commands: Vec<String>) -> Result<Self, KernelError> {
        for arguments in &commands {
            Tool::Ip.run(arguments, "").inspect_err(|_| remove(tables))?;
        }
        Ok(Self { tables, commands })
    }

    /// Those that another process has made by these commands.
    pub(in crate::intercept) fn of(tables: [u32; 2], commands: Vec<String>) -> Self {
        Self { tables, commands }
    }

    /// Makes what these commands make beyond the former ones, and then takes away what they do not.
    pub(in crate::intercept) fn change(&mut self, commands: Vec<String>) -> Result<(), KernelError> {
        for arguments in commands.iter().filter(|new| !self.commands.contains(new)) {
            Tool::Ip.run(arguments, "")?;
        }
        for former in self.commands.iter().filter(|former| !commands.contains(former)) {
            Tool::Ip.run(&former.replacen(" add ", " del ", 1), "")?;
        }
        self.commands = commands;
        Ok(())
    }

    /// Takes them away.
    pub(in crate::intercept) fn remove(self) {
        remove(self.tables);
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
    match Tool::Ip.run(arguments, "") {
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

/// Takes away the rules and routes in these tables that have our number.
pub(in crate::intercept) fn remove(tables: [u32; 2]) {
    for family in families(true) {
        for table in tables {
            let rule = format!("{family} rule del priority {table} protocol {PROTOCOL}");
            drop_source(family, table);
            // There may be several, if several were killed while they began. An error means that there is none.
            while Tool::Ip.run(&rule, "").is_ok() {}
            drop(Tool::Ip.run(&format!("{family} route flush table {table} protocol {PROTOCOL}"), ""));
        }
    }
}

/// Takes away the address on loopback that the routes of a table give to programs.
fn drop_source(family: &str, table: u32) {
    let routes = show(&format!("{family} route show table {table} protocol {PROTOCOL}"));
    let source = routes.ok().and_then(|routes| routes.lines().find_map(loopback_source).map(str::to_owned));
    if let Some(source) = source {
        drop(Tool::Ip.run(&format!("{family} address del {source}/128 dev lo"), ""));
    }
}

/// The source that a route over loopback gives, in a line of `ip route`.
fn loopback_source(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| *word != "src");
    line.contains(" dev lo ").then(|| words.nth(1))?
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
        let line = "fd09::/16 dev lo src fd57:4849:4d42::1 metric 1024 pref medium";
        assert_eq!(loopback_source(line), Some("fd57:4849:4d42::1"));
        assert_eq!(loopback_source(&line.replace("dev lo", "dev whimbrel0")), None);
        for (line, priority) in [
            ("7700:\tfrom all fwmark 0x57480001 lookup 7700 proto 77", Some(7700)),
            ("7701:\tfrom all nop proto 77", Some(7701)),
            ("", None),
        ] {
            assert_eq!(priority_of(line), priority, "{line}");
        }
    }
}
