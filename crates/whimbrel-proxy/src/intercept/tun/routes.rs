//! Rules and routes that lead into the interface: what programs of this host send without an address of their choice,
//! and what hosts behind some interfaces send. What has a mark, as all that the proxy itself sends, goes its way.

use ipnet::IpNet;

use super::addresses::Addresses;
use super::settings::TunSettings;
use crate::intercept::kernel::{Names, PROTOCOL, families};

/// Networks of this host's links, which nobody else can reach.
const LINK: [&str; 4] = ["0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32"];
const LINK_V6: [&str; 2] = ["fe80::/10", "ff00::/8"];

/// The fate of traffic that is led into a table.
#[derive(Clone, Copy)]
enum TableFate {
    /// It goes into the interface.
    Interface,
    /// It is rejected: what the kernel does once the interface is gone, and with it the routes into it.
    Nowhere,
}

/// The commands of `ip` that lead into the interface, which is there already.
pub(super) fn commands(
    names: Names,
    settings: &TunSettings,
    addresses: &Addresses,
    has_ipv6: bool,
) -> Vec<String> {
    of_families(names, settings, addresses, has_ipv6, TableFate::Interface)
}

/// The commands of `ip` that reject the same.
pub(super) fn kill_switch(
    names: Names,
    settings: &TunSettings,
    addresses: &Addresses,
    has_ipv6: bool,
) -> Vec<String> {
    of_families(names, settings, addresses, has_ipv6, TableFate::Nowhere)
}

fn of_families(
    names: Names,
    settings: &TunSettings,
    addresses: &Addresses,
    has_ipv6: bool,
    way: TableFate,
) -> Vec<String> {
    let mut all = Vec::new();
    for family in families(has_ipv6) {
        let is_v4 = family == "-4";
        let own = addresses.own(is_v4);
        let [table, other] = match way {
            TableFate::Interface => names.tables(),
            TableFate::Nowhere => names.kill_tables(),
        };
        let into = |table: u32, kind: &str, way: &str| routes(table, settings, (kind, way), is_v4);
        let (mut tables, mut before) = (Tables { table, chosen: table, after: other }, None);
        let routed = match way {
            TableFate::Interface => into(table, "", &format!("dev {} src {own} ", names.tun())),
            TableFate::Nowhere if is_v4 => into(table, "prohibit ", ""),
            TableFate::Nowhere => {
                // Where the way is an error, a program's address is chosen and the way is looked up again, as if the
                // program had chosen it. So the way is one that gives it our own address, from which there is none.
                tables.chosen = other;
                before = Some(format!("address add {own}/128 dev lo nodad preferred_lft 0"));
                let first = into(table, "", &format!("dev lo src {own} "));
                first.into_iter().chain(into(other, "prohibit ", "")).collect()
            }
        };
        // Without a route there is no need for rules.
        if !routed.is_empty() {
            let rules = rules(&tables, settings, addresses, is_v4);
            let both = before.into_iter().chain(rules).chain(routed);
            all.extend(both.map(|arguments| format!("{family} {arguments}")));
        }
    }
    all
}

/// Where rules lead.
struct Tables {
    /// The table for what has no address yet. Its number is the priority of rules.
    table: u32,
    /// The table for what has one, of this host or of hosts behind an interface.
    chosen: u32,
    /// The priority with which it goes on for what is none of ours.
    after: u32,
}

/// The rules of a family. Those of equal priority hold in the order in which they were made.
fn rules(tables: &Tables, settings: &TunSettings, addresses: &Addresses, is_v4: bool) -> Vec<String> {
    let Tables { table: priority, chosen, after } = *tables;
    let into = |what: &str, table: u32| {
        format!("rule add {what} lookup {table} priority {priority} protocol {PROTOCOL}")
    };
    let unmarked = |what: &str, table: u32| into(&format!("{what} fwmark 0x0/0xffffffff"), table);
    // Only what was led here before has this source.
    let mut rules = vec![into(&format!("from {} iif lo", addresses.own(is_v4)), chosen)];
    rules.extend(settings.interfaces.iter().map(|name| unmarked(&format!("iif {name}"), chosen)));
    // A socket with an address of its own answers somebody who has called it by that.
    if is_v4 {
        rules.push(unmarked("from 0.0.0.0/32 iif lo", priority));
        return rules;
    }
    // Here, a rule for no address never matches, so the others leave first.
    rules.insert(0, format!("rule add nop priority {after} protocol {PROTOCOL}"));
    for half in ["::/1", "8000::/1"] {
        rules.push(format!(
            "rule add from {half} iif lo goto {after} priority {priority} protocol {PROTOCOL}"
        ));
    }
    rules.push(unmarked("iif lo", priority));
    rules
}

fn routes(table: u32, settings: &TunSettings, (kind, way): (&str, &str), is_v4: bool) -> Vec<String> {
    let of_family = |nets: &[IpNet]| {
        let nets = nets.iter().filter(|net| matches!(net, IpNet::V4(_)) == is_v4);
        nets.map(IpNet::trunc).collect::<std::collections::BTreeSet<_>>()
    };
    let (into, except) = (of_family(&settings.routes), of_family(&settings.except));
    if into.is_empty() {
        return Vec::new();
    }
    let link = if is_v4 { &LINK[..] } else { &LINK_V6[..] };
    let link = link.iter().filter_map(|net| net.parse::<IpNet>().ok());
    // What somebody names is more than what nobody does.
    let thrown: Vec<_> = except.iter().copied().chain(link.filter(|net| !into.contains(net))).collect();
    let thrown =
        thrown.into_iter().map(|net| format!("route add throw {net} table {table} protocol {PROTOCOL}"));
    let into =
        into.into_iter().map(|net| format!("route add {kind}{net} {way}table {table} protocol {PROTOCOL}"));
    thrown.chain(into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_into_the_interface() {
        let settings = TunSettings {
            routes: vec!["10.0.0.7/8".parse().unwrap(), "10.1.0.0/8".parse().unwrap()],
            except: vec!["10.0.0.0/24".parse().unwrap()],
            interfaces: vec!["lan0".to_owned()],
            ..Default::default()
        };
        let addresses = Addresses::new(&settings, 1);
        let all = commands(Names::new(1, settings.mark), &settings, &addresses, true);
        let (mark, rest) = ("fwmark 0x0/0xffffffff", "lookup 7702 priority 7702 protocol 77");
        let wanted = [
            format!("-4 rule add from 169.254.65.1 iif lo {rest}"),
            format!("-4 rule add iif lan0 {mark} {rest}"),
            format!("-4 rule add from 0.0.0.0/32 iif lo {mark} {rest}"),
            "-4 route add throw 10.0.0.0/24 table 7702 protocol 77".to_owned(),
        ];
        assert_eq!(all[..4], wanted);
        let last = "-4 route add 10.0.0.0/8 dev whimbrel1 src 169.254.65.1 table 7702 protocol 77";
        assert_eq!(all.last().unwrap(), last);
        assert!(!all.iter().any(|command| command.starts_with("-6")), "no network of IPv6 is named");
        let rejected = kill_switch(Names::new(1, settings.mark), &settings, &addresses, true);
        assert_eq!(rejected.last().unwrap(), "-4 route add prohibit 10.0.0.0/8 table 7734 protocol 77");
        assert_eq!(rejected.len(), all.len(), "the same is rejected that was led into the interface");
    }
}
