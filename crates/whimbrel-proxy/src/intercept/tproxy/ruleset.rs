//! The rules of nftables, as text: which packets are intercepted, and what the kernel does with them.

use std::fmt::Write;

use ipnet::IpNet;

use super::settings::TproxySettings;
use crate::intercept::kernel::Names;

/// Networks of this host and its links, which nobody else can reach.
const LOCAL: [&str; 6] =
    ["0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "240.0.0.0/4"];
const LOCAL_V6: [&str; 4] = ["::/127", "fe80::/10", "ff00::/8", "::ffff:0:0/96"];
/// A SYN without ACK begins a connection.
const SYN: &str = "tcp flags & (fin | syn | rst | ack) == syn";
/// Any other packet of a connection.
const REST: &str = "tcp flags & (fin | syn | rst | ack) != syn";
/// The chain whose presence says that all of the table was made.
pub(super) const LAST_CHAIN: &str = "complete";

/// The settings that the rules are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ruleset {
    pub(super) names: Names,
    pub(super) settings: TproxySettings,
    pub(super) has_ipv6: bool,
    /// The networks for which rules say what becomes of ICMP echo. None of them covers another.
    pub(super) pinged: Vec<IpNet>,
}

/// Commands of nft for one table, in one line: nft takes a line as one transaction.
struct Commands {
    table: String,
    text: String,
}

impl Commands {
    fn new(table: &str) -> Self {
        Self { table: format!("inet {table}"), text: String::new() }
    }

    fn add(&mut self, command: &str) {
        let separator = if self.text.is_empty() { "" } else { "; " };
        // Writing to a string never fails.
        write!(self.text, "{separator}{command}").ok();
    }

    fn chain(&mut self, name: &str, hook: &str, rules: &[String]) {
        self.add(&format!("add chain {} {name} {{ {hook} policy accept; }}", self.table));
        self.rules(name, rules);
    }

    fn rules(&mut self, name: &str, rules: &[String]) {
        for rule in rules {
            self.add(&format!("add rule {} {name} {rule}", self.table));
        }
    }
}

impl Ruleset {
    /// The table that intercepts. It goes with whoever makes it, and nobody else can alter it.
    pub(super) fn intercepting(&self) -> String {
        let mut commands = Commands::new(&self.names.table());
        commands.add(&format!("create table {} {{ flags owner; }}", commands.table));
        for (name, hook, rules) in self.chains() {
            commands.chain(name, hook, &rules);
        }
        commands.add(&format!("add chain {} {LAST_CHAIN}", commands.table));
        commands.text
    }

    /// Puts these rules in place of others in that table.
    pub(super) fn changing(&self) -> String {
        let mut commands = Commands::new(&self.names.table());
        for (name, hook, rules) in self.chains() {
            // It is there, unless another version has made the table.
            commands.chain(name, hook, &[]);
            commands.add(&format!("flush chain {} {name}", commands.table));
            commands.rules(name, &rules);
        }
        commands.text
    }

    fn chains(&self) -> [(&'static str, &'static str, Vec<String>); 2] {
        [
            ("arriving", "type filter hook prerouting priority mangle;", self.arriving()),
            ("leaving", "type route hook output priority mangle;", self.leaving()),
        ]
    }

    /// The table that rejects what is not intercepted. It stays until somebody takes it away.
    pub(super) fn kill_switch(&self) -> String {
        let mut commands = Commands::new(&self.names.kill_switch());
        // In place of one that was there.
        commands.add(&format!("add table {}", commands.table));
        commands.add(&format!("delete table {}", commands.table));
        commands.add(&format!("add table {}", commands.table));
        let reject = ["meta l4proto tcp reject with tcp reset", "meta l4proto udp reject"].map(str::to_owned);
        if let Some(interfaces) = self.interfaces() {
            let mut rules = vec![
                format!("iifname != {interfaces} accept"),
                // SYNs that a proxy holds.
                "oifname \"whimbrel*\" accept".to_owned(),
            ];
            rules.extend(not_from_there());
            rules.extend(self.left_alone());
            rules.extend(reject.clone());
            rules.extend(self.pings("reject"));
            commands.chain("forwarded", "type filter hook forward priority filter;", &rules);
        }
        if self.settings.output {
            let marks = [self.names.own(), self.names.reply(), self.names.deliver(), self.names.hold()];
            let marks = marks.map(|mark| format!("{mark:#x}")).join(", ");
            let mut rules =
                vec![format!("meta mark {{ {marks} }} accept"), "oifname \"lo\" accept".to_owned()];
            rules.extend(self.left_alone());
            rules.extend(reject);
            rules.extend(self.pings("reject"));
            commands.chain("leaving", "type filter hook output priority filter;", &rules);
        }
        commands.text
    }

    /// The interfaces as a set.
    fn interfaces(&self) -> Option<String> {
        let names: Vec<_> = self.settings.interfaces.iter().map(|name| format!("\"{name}\"")).collect();
        (!names.is_empty()).then(|| format!("{{ {} }}", names.join(", ")))
    }

    /// Rules that accept what is never intercepted: what is for this host or a group, replies to what came in by
    /// another way, and what the settings leave out.
    fn left_alone(&self) -> Vec<String> {
        let mut rules = vec![
            "fib daddr type != unicast accept".to_owned(),
            // A reply of ours in another's name makes no flow of that other's, so answers to it are no replies.
            format!("ct direction reply ct mark != {:#x} accept", self.names.reply()),
        ];
        let except = |is_v4: bool| {
            let nets = self.settings.except.iter().filter(move |net| matches!(net, IpNet::V4(_)) == is_v4);
            nets.map(|net| net.trunc().to_string())
        };
        for (family, local, except) in
            [("ip", &LOCAL[..], except(true)), ("ip6", &LOCAL_V6[..], except(false))]
        {
            for network in local.iter().map(|&network| network.to_owned()).chain(except) {
                rules.push(format!("{family} daddr {network} accept"));
            }
        }
        rules
    }

    fn arriving(&self) -> Vec<String> {
        let Self { names, settings, .. } = self;
        let (deliver, hold, tun) = (names.deliver(), names.hold(), names.tun());
        let mut rules = Vec::new();
        // A SYN that was held comes back. Our resets and errors, which come from there, too, pass.
        for to in self.handed_over("tcp") {
            rules.push(format!("iifname \"{tun}\" {SYN} {to} meta mark set {deliver:#x} accept"));
        }
        // A reply of ours in another's name makes a flow of that other's, unless it is known as ours.
        let reply = names.reply();
        rules.push(format!("iifname \"{tun}\" meta l4proto udp ct mark set {reply:#x} accept"));
        rules.push(format!("iifname \"{tun}\" accept"));
        if settings.output {
            // What this host sends was marked when it left.
            for to in self.handed_over("udp") {
                rules.push(format!("iifname \"lo\" meta mark {deliver:#x} {to} accept"));
            }
        }
        // The rest of a connection whose SYN was held goes nowhere else, even if its socket is gone: it is reset. With
        // SYN cookies there is no socket yet. It stays so if other settings leave its target or interface alone by now.
        let rest = format!("iifname != \"lo\" {} {REST}", self.rest());
        rules.push(format!("{rest} socket transparent 1 meta mark set {deliver:#x} accept"));
        for to in self.handed_over("tcp") {
            rules.push(format!("{rest} {to} meta mark set {deliver:#x} accept"));
        }
        let Some(interfaces) = self.interfaces() else { return rules };
        rules.push(format!("iifname != {interfaces} accept"));
        rules.extend(not_from_there());
        rules.extend(self.left_alone());
        rules.push(format!("{} {SYN} ct mark set {hold:#x} meta mark set {hold:#x} accept", self.families()));
        rules.extend(self.pings(&format!("meta mark set {hold:#x} accept")));
        // Only TCP: datagrams would reach a socket that replies, and never the one that listens.
        rules.push(format!("meta l4proto tcp socket transparent 1 meta mark set {deliver:#x} accept"));
        for to in self.handed_over("udp") {
            rules.push(format!("{to} meta mark set {deliver:#x} accept"));
        }
        rules
    }

    fn leaving(&self) -> Vec<String> {
        let Self { names, settings, .. } = self;
        let (deliver, hold, own, reply) = (names.deliver(), names.hold(), names.own(), names.reply());
        let mut rules = vec![format!("meta mark {reply:#x} ct mark set {reply:#x} accept")];
        // The rest of a connection whose SYN was held. Others go on as they began.
        rules.push(format!("{} {REST} meta mark set {deliver:#x} accept", self.rest()));
        if !settings.output {
            return rules;
        }
        rules.push(format!("meta mark {own:#x} accept"));
        rules.extend(self.left_alone());
        let families = self.families();
        rules.push(format!("{families} {SYN} ct mark set {hold:#x} meta mark set {hold:#x} accept"));
        rules.extend(self.pings(&format!("meta mark set {hold:#x} accept")));
        rules.push(format!("{families} meta l4proto udp meta mark set {deliver:#x} accept"));
        rules
    }

    /// Rules for echo requests that the policy has a word about.
    fn pings(&self, then: &str) -> Vec<String> {
        let of = |is_v4: bool| {
            let nets = self.pinged.iter().filter(|net| matches!(net, IpNet::V4(_)) == is_v4);
            nets.map(IpNet::to_string).collect::<Vec<_>>().join(", ")
        };
        let families = [("ip", "icmp", of(true)), ("ip6", "icmpv6", of(false))];
        let families = families.into_iter().take(1 + usize::from(self.has_ipv6));
        let rule = |(family, icmp, nets): (&str, &str, String)| {
            format!("{family} daddr {{ {nets} }} {icmp} type echo-request {then}")
        };
        families.filter(|(_, _, nets)| !nets.is_empty()).map(rule).collect()
    }

    /// Segments of a program on a connection whose SYN was held.
    fn rest(&self) -> String {
        format!("ct direction original ct mark {:#x}", self.names.hold())
    }

    /// The families that are intercepted.
    fn families(&self) -> &'static str {
        if self.has_ipv6 { "meta nfproto { ipv4, ipv6 }" } else { "meta nfproto ipv4" }
    }

    /// The statements that hand packets of a protocol to the proxy's socket.
    fn handed_over(&self, protocol: &str) -> impl Iterator<Item = String> {
        let port = self.settings.port;
        let to = [
            format!("meta nfproto ipv4 meta l4proto {protocol} tproxy ip to 127.0.0.1:{port}"),
            format!("meta nfproto ipv6 meta l4proto {protocol} tproxy ip6 to [::1]:{port}"),
        ];
        to.into_iter().take(1 + usize::from(self.has_ipv6))
    }
}

/// Rules that drop what begins a flow in the name of a host that is not behind its interface. Otherwise, traffic from a
/// host behind it to that other would be a reply, and left alone.
fn not_from_there() -> [String; 2] {
    // Groups first: who has no address yet asks for one that way.
    ["fib daddr type != unicast accept", "ct state new fib saddr . iif oif missing drop"].map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruleset(output: bool) -> Ruleset {
        let settings = TproxySettings {
            interfaces: vec!["lan0".into()],
            output,
            except: vec!["10.9.1.1/8".parse().unwrap()],
            ..Default::default()
        };
        let pinged = vec!["10.0.0.0/8".parse().unwrap()];
        Ruleset { names: Names::new(1, settings.mark), settings, has_ipv6: true, pinged }
    }

    #[test]
    fn the_order_of_rules_keeps_others_traffic_whole() {
        let text = ruleset(true).intercepting();
        assert!(!text.contains('\n'), "one line is one transaction");
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing: {text}"));
        let order = [
            "create table inet whimbrel1 { flags owner; }",
            "iifname \"whimbrel1\" tcp flags",
            "iifname \"whimbrel1\" meta l4proto udp ct mark set 0x574800ff accept",
            "iifname \"whimbrel1\" accept",
            "arriving iifname != \"lo\" ct direction original ct mark 0x57480006 tcp flags & (fin | syn | rst | ack) != syn meta nfproto ipv4 meta l4proto tcp tproxy",
            "iifname != { \"lan0\" } accept",
            "arriving fib daddr type != unicast accept",
            "arriving ct state new fib saddr . iif oif missing drop",
            "arriving ct direction reply",
            "arriving ip daddr 10.0.0.0/8 accept",
            "ct mark set 0x57480006 meta mark set 0x57480006 accept",
            "arriving ip daddr { 10.0.0.0/8 } icmp type echo-request meta mark set 0x57480006 accept",
            "arriving meta l4proto tcp socket transparent 1",
            "udp tproxy ip6 to [::1]:7893 meta mark set",
            "leaving ct direction original ct mark 0x57480006 tcp flags",
            "leaving meta mark 0x57480000 accept",
            "leaving ct direction reply",
            "leaving meta nfproto { ipv4, ipv6 } tcp flags",
            "add chain inet whimbrel1 complete",
        ];
        assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{text}");
        // Without `output`, nothing that this host sends is rerouted.
        assert!(!ruleset(false).intercepting().contains("meta nfproto { ipv4, ipv6 } meta l4proto udp meta"));
    }

    #[test]
    fn a_kill_switch_lets_the_proxy_through() {
        let text = ruleset(true).kill_switch();
        assert!(!text.contains("owner"), "it stays");
        assert!(text.contains("leaving meta mark { 0x57480000, 0x574800ff, 0x57480005, 0x57480006 } accept"));
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing: {text}"));
        assert!(at("forwarded ct state new fib saddr") < at("forwarded ct direction reply"));
        assert!(text.find("oifname \"whimbrel*\" accept") < text.find("forwarded meta l4proto tcp reject"));
    }
}
