//! All rules, in their order: the first that matches decides.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use whimbrel::Service;

use super::index::Index;
use super::rule::{Accept, Action, Dns, FlowKey, Rule};
use crate::compress::Method;

/// The most rules that are compared in pairs.
const MOST_COMPARED: usize = 2_000;

/// Rules. Without any, everything is carried. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    all: Arc<All>,
    /// The places of those whose conditions do not hold.
    off: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct All {
    rules: Vec<Rule>,
    index: Index,
    asks: Asks,
}

/// The facts that rules ask for and that cost something to find out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// One asks for the interface.
    pub interface: bool,
    /// One asks for the DSCP.
    pub dscp: bool,
}

/// The fate of a flow, and how it travels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The place and name of the rule that decided. None: no rule matches.
    pub rule: Option<(usize, String)>,
    /// The fate of the flow.
    pub action: Action,
    /// The name of the peer. None: the first that is dialled, or the first.
    pub peer: Option<String>,
    /// Its priority.
    pub priority: Option<u8>,
    /// The longest time that its datagrams may wait.
    pub lifetime: Option<Duration>,
    /// The service of its datagrams.
    pub service: Option<Service>,
    /// The rate that flows of the rule may have together, bit/s.
    pub cap: Option<u64>,
    /// The longest time that a small datagram may wait for others.
    pub gather: Option<Duration>,
    /// The party that answers questions for names.
    pub dns: Dns,
    /// The number of bytes that a program may write while the peer cannot be reached.
    pub hold_bytes: Option<usize>,
    /// Whether it is logged.
    pub log: bool,
    /// The time that a TCP flow waits for a peer that cannot be reached.
    pub outage: Option<Duration>,
    /// Whether a running flow ends if this decision would not carry it.
    pub existing: bool,
    /// Its compression.
    pub compression: Option<Method>,
    /// The name of the dictionary for that.
    pub dictionary: Option<String>,
    /// The moment at which an intercepted TCP connection is accepted.
    pub accept: Option<Accept>,
}

/// A rule that can never match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rule `{rule}` can never match, since the rule `{before}` before it matches everything that it would: change their order, or remove one"
)]
pub struct NeverMatches {
    /// Its name.
    pub rule: String,
    /// The name of the rule that takes all.
    pub before: String,
}

impl Rules {
    /// Rules in this order.
    ///
    /// # Errors
    /// One can never match.
    pub fn new(rules: Vec<Rule>) -> Result<Self, NeverMatches> {
        for (at, rule) in rules.iter().enumerate().take(MOST_COMPARED) {
            if let Some(before) = rules[..at].iter().find(|before| before.covers(rule)) {
                return Err(NeverMatches { rule: rule.name.clone(), before: before.name.clone() });
            }
        }
        let (index, asks) = (Index::new(&rules), Asks::of(&rules));
        let off = rules.iter().enumerate().filter(|(_, rule)| !rule.when.is_empty()).map(|(at, _)| at);
        Ok(Self { off: off.collect(), all: Arc::new(All { rules, index, asks }) })
    }

    /// Returns what they ask for that costs something to find out.
    pub fn asks(&self) -> Asks {
        self.all.asks
    }

    /// Returns all rules, whether or not their conditions hold.
    pub fn all(&self) -> &[Rule] {
        &self.all.rules
    }

    /// Returns the same rules, where exactly those with conditions take part of which `holds` says so.
    #[must_use]
    pub fn under(&self, holds: impl Fn(&Rule) -> bool) -> Self {
        let is_off = |(_, rule): &(usize, &Rule)| !rule.when.is_empty() && !holds(rule);
        let off = self.all().iter().enumerate().filter(is_off).map(|(at, _)| at).collect();
        Self { all: Arc::clone(&self.all), off }
    }

    /// Returns the rules that would decide about a flow before `decision` did, if their conditions held.
    pub fn before<'a>(
        &'a self,
        decision: &Decision,
        key: &'a FlowKey,
    ) -> impl Iterator<Item = (usize, &'a Rule)> {
        let end = decision.rule.as_ref().map_or(self.all().len(), |(at, _)| *at);
        self.all()[..end].iter().enumerate().filter(|(at, rule)| self.off.contains(at) && rule.matches(key))
    }

    /// Returns what becomes of a flow.
    pub fn decide(&self, key: &FlowKey) -> Decision {
        let matches = |at: usize| !self.off.contains(&at) && self.all.rules[at].matches(key);
        let Some(at) = self.all.index.first(key, matches) else { return Decision::default() };
        Decision::of(at, &self.all.rules[at])
    }
}

impl Asks {
    fn of(rules: &[Rule]) -> Self {
        Self {
            interface: rules.iter().any(|rule| !rule.interface.is_empty()),
            dscp: rules.iter().any(|rule| !rule.dscp.is_empty()),
        }
    }
}

impl Decision {
    /// Returns the decision of the rule at this place.
    pub fn of(at: usize, rule: &Rule) -> Self {
        Self {
            rule: Some((at, rule.name.clone())),
            action: rule.action,
            peer: rule.peer.clone(),
            priority: rule.priority,
            lifetime: rule.lifetime,
            service: rule.service,
            cap: rule.cap,
            gather: rule.gather,
            dns: rule.dns,
            hold_bytes: rule.hold_bytes,
            log: rule.log,
            outage: rule.outage,
            existing: rule.existing,
            compression: rule.compression,
            dictionary: rule.dictionary.clone(),
            accept: rule.accept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Origin, Protocol, WayIn};

    fn rules(text: &str) -> Vec<Rule> {
        #[derive(serde::Deserialize)]
        struct File {
            rule: Vec<Rule>,
        }
        whimbrel_service::parse_config::<File>("x.toml", text).unwrap().rule
    }

    fn key(protocol: Protocol, target: &str, source: &str) -> FlowKey {
        let (target, source) = (target.parse().unwrap(), source.parse().unwrap());
        FlowKey { protocol, target, source, origin: Origin::default() }
    }

    const TEXT: &str = "
        [[rule]]
        name = 'printers'
        to = ['10.0.9.0/24:*', '*.print.internal:*']
        action = 'direct'
        [[rule]]
        name = 'video'
        protocol = 'udp'
        to = ['*:5000-5999']
        from = ['192.168.0.0/16']
        priority = 200
        lifetime = '200ms'
        [[rule]]
        name = 'mail'
        to = ['*:25']
        action = 'reject'
        [[rule]]
        name = 'rest'
        peer = 'office'
    ";

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = Rules::new(rules(TEXT)).unwrap();
        let name = |protocol, target, source| {
            rules.decide(&key(protocol, target, source)).rule.map(|(_, name)| name).unwrap()
        };
        use Protocol::{Tcp, Udp};
        assert_eq!(name(Tcp, "10.0.9.7:25", "192.168.1.1:9"), "printers");
        assert_eq!(name(Tcp, "a.print.internal:1", "192.168.1.1:9"), "printers");
        assert_eq!(name(Udp, "1.2.3.4:5004", "192.168.1.1:9"), "video");
        assert_eq!(name(Tcp, "1.2.3.4:5004", "192.168.1.1:9"), "rest");
        assert_eq!(name(Udp, "1.2.3.4:5004", "10.0.0.1:9"), "rest");
        assert_eq!(name(Tcp, "mail.example.org:25", "10.0.0.1:9"), "mail");
        let video = rules.decide(&key(Udp, "1.2.3.4:5004", "192.168.1.1:9"));
        assert_eq!((video.priority, video.lifetime), (Some(200), Some(Duration::from_millis(200))));
        assert_eq!(Rules::default().decide(&key(Tcp, "a.b:1", "10.0.0.1:9")), Decision::default());
    }

    #[test]
    fn a_rule_takes_part_while_its_conditions_hold() {
        let rules = Rules::new(rules(
            "[[rule]]\nname = 'shed'\nto = ['*:80']\nwhen = ['loss > 10%', 'paths < 2']\naction = 'hold'\nexisting = true\n
             [[rule]]\nname = 'web'\nto = ['*:80']",
        ))
        .unwrap();
        let decide = |rules: &Rules| rules.decide(&key(Protocol::Tcp, "a.b:80", "10.0.0.1:9"));
        assert_eq!(decide(&rules).rule, Some((1, "web".to_owned())));
        let held = decide(&rules.under(|rule| rule.name == "shed"));
        assert_eq!(
            (held.rule, held.action, held.existing),
            (Some((0, "shed".to_owned())), Action::Hold, true)
        );
        assert_eq!(decide(&rules.under(|_| true).under(|_| false)).action, Action::Carry);
    }

    #[test]
    fn a_rule_on_what_is_not_known_does_not_match() {
        let rules = Rules::new(rules(
            "[[rule]]\nname = 'lan'\ninterface = 'lan*'\n
             [[rule]]\nname = 'voice'\ndscp = ['ef', 34]\n
             [[rule]]\nname = 'socks'\nby = 'socks'\n
             [[rule]]\nname = 'late'\nby = ['socks', 'forward']",
        ))
        .unwrap();
        assert_eq!(rules.asks(), Asks { interface: true, dscp: true });
        let of = |origin| FlowKey { origin, ..key(Protocol::Tcp, "a.b:80", "10.0.0.1:9") };
        let name = |origin| rules.decide(&of(origin)).rule.map(|(_, name)| name);
        assert_eq!(name(Origin::default()), None);
        assert_eq!(name(Origin::by(WayIn::Socks)).as_deref(), Some("socks"));
        assert_eq!(name(Origin::by(WayIn::Forward)).as_deref(), Some("late"));
        let seen = |interface: &str, dscp: &str| Origin {
            by: Some(WayIn::Tproxy),
            interface: Some(interface.into()),
            dscp: Some(dscp.parse().unwrap()),
        };
        assert_eq!(name(seen("lan3", "0")).as_deref(), Some("lan"));
        assert_eq!(name(seen("eth0", "af41")).as_deref(), Some("voice"));
        assert_eq!(name(seen("eth0", "0")), None);
        // More could be known of it.
        let unknown = of(Origin::by(WayIn::Socks));
        let might: Vec<_> = rules.all().iter().map(|rule| rule.might_match(&unknown)).collect();
        assert_eq!(might, [true, true, true, true]);
        assert!(!rules.all()[0].might_match(&of(seen("eth0", "0"))));
    }

    #[test]
    fn a_rule_for_one_way_in_does_not_take_all() {
        let one = "[[rule]]\nname = 'a'\nby = 'socks'\n[[rule]]\nname = 'b'\n";
        assert!(Rules::new(rules(one)).is_ok());
        let both = "[[rule]]\nname = 'a'\nby = ['socks', 'tun']\n[[rule]]\nname = 'b'\nby = 'tun'\n";
        assert_eq!(Rules::new(rules(both)).unwrap_err().rule, "b");
    }

    /// Rules that a seed makes, of all kinds of patterns.
    fn random_rules(rng: &mut rand_chacha::ChaCha20Rng, count: usize) -> Vec<Rule> {
        use rand::RngExt;
        let mut all = String::new();
        for at in 0..count {
            let mut hosts = || match rng.random_range(0..8) {
                0 => format!("10.{}.0.0/16", rng.random_range(0..4)),
                1 => format!("10.{}.{}.0/24", rng.random_range(0..4), rng.random_range(0..4)),
                2 => format!("[fd00:{}::]/32", rng.random_range(0..4)),
                3 => format!("h{}.example.org", rng.random_range(0..4)),
                4 => "*.example.org".to_owned(),
                5 => "*.org".to_owned(),
                _ => "*".to_owned(),
            };
            let mut to: Vec<String> = (0..at % 3).map(|_| hosts()).collect();
            for to in &mut to {
                let port = rng.random_range(1..5);
                *to += &[format!(":{port}"), format!(":{port}-6"), ":*".to_owned()][rng.random_range(0..3)];
            }
            let from: Vec<_> = (0..rng.random_range(0..2))
                .map(|_| format!("192.168.{}.0/24", rng.random_range(0..3)))
                .collect();
            let when: &[&str] = if rng.random_ratio(1, 4) { &["loss > 1%"] } else { &[] };
            all += &format!("[[rule]]\nname = 'r{at}'\n");
            let when: Vec<String> = when.iter().map(|when| (*when).to_owned()).collect();
            for (setting, list) in [("to", to), ("from", from), ("when", when)] {
                if !list.is_empty() {
                    all += &format!("{setting} = {list:?}\n");
                }
            }
        }
        rules(&all)
    }

    #[test]
    fn the_index_finds_what_a_search_finds() {
        use rand::{RngExt, SeedableRng};
        let mut matched = 0;
        for seed in 0..300 {
            let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(seed);
            let all = random_rules(&mut rng, 24);
            // A rule that never matches is no error here.
            let index = Index::new(&all);
            let rules = Rules {
                all: Arc::new(All { rules: all.clone(), index, asks: Asks::default() }),
                off: BTreeSet::new(),
            };
            let rules = rules.under(|_| seed % 2 == 0);
            for _ in 0..100 {
                let target = match rng.random_range(0..4) {
                    0 => format!("10.{}.{}.1", rng.random_range(0..4), rng.random_range(0..4)),
                    1 => format!("[fd00:{}::1]", rng.random_range(0..4)),
                    2 => format!("[::ffff:10.{}.1.1]", rng.random_range(0..4)),
                    _ => format!("h{}.example.org", rng.random_range(0..4)),
                };
                let target = format!("{target}:{}", rng.random_range(1..8));
                let key = key(Protocol::Tcp, &target, &format!("192.168.{}.9:1", rng.random_range(0..3)));
                let takes_part = |rule: &Rule| seed % 2 == 0 || rule.when.is_empty();
                let wanted = all.iter().position(|rule| takes_part(rule) && rule.matches(&key));
                assert_eq!(rules.decide(&key).rule.map(|(at, _)| at), wanted, "seed {seed}, {target}");
                matched += usize::from(wanted.is_some());
            }
        }
        assert!(matched > 10_000, "{matched}");
    }

    #[test]
    fn a_flow_looks_at_few_of_many_rules() {
        let text: String = (0..10_000)
            .map(|at| {
                let (a, b) = (at / 250, at % 250);
                let (to, from) = match at % 5 {
                    0 => (format!("10.{a}.{b}.0/24:*"), ""),
                    1 => (format!("h{at}.example.org:443"), ""),
                    2 => (format!("*.d{at}.example.org:*"), ""),
                    3 => (format!("*:{}", 1 + at), ""),
                    _ => (format!("[fd00:{at:x}::]/32:1-99"), "from = ['10.9.0.0/16']"),
                };
                format!("[[rule]]\nname = 'r{at}'\nto = ['{to}']\n{from}\n")
            })
            .collect();
        let all = rules(&text);
        let index = Index::new(&all);
        for (target, wanted) in [
            ("10.39.245.7:60001", Some(9_995)),
            ("h9996.example.org:443", Some(9_996)),
            ("x.d9997.example.org:60001", Some(9_997)),
            ("203.0.113.1:9999", Some(9_998)),
            ("[fd00:270f::1]:97", Some(9_999)),
            ("203.0.113.1:50001", None),
        ] {
            let key = key(Protocol::Tcp, target, "10.9.1.1:1");
            let looked = std::cell::Cell::new(0);
            let found = index.first(&key, |at| {
                looked.set(looked.get() + 1);
                all[at].matches(&key)
            });
            assert_eq!(found, wanted, "{target}");
            assert!(looked.get() <= 3, "{target}: {} rules", looked.get());
        }
    }

    #[test]
    fn a_rule_that_can_never_match_is_refused() {
        let late = format!("{TEXT}[[rule]]\nname = 'late'\nprotocol = 'tcp'");
        let error = Rules::new(rules(&late)).unwrap_err();
        assert_eq!((error.rule.as_str(), error.before.as_str()), ("late", "rest"));
        let narrow =
            "[[rule]]\nname = 'a'\nto = ['10.0.0.0/8:*']\n[[rule]]\nname = 'b'\nto = ['10.1.0.0/16:22']";
        assert_eq!(Rules::new(rules(narrow)).unwrap_err().rule, "b");
        let partly = "[[rule]]\nname = 'a'\nto = ['10.0.0.0/8:*']\n[[rule]]\nname = 'b'\nto = ['10.1.0.0/16:22', '11.0.0.0/8:*']";
        assert!(Rules::new(rules(partly)).is_ok());
    }
}
