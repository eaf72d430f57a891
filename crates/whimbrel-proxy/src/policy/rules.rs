//! All rules, in their order: the first that matches decides.

use std::time::Duration;

use super::rule::{Action, Key, Rule};

/// The most rules that are compared in pairs.
const MOST_COMPARED: usize = 2_000;

/// Rules. Without any, everything is carried.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

/// What becomes of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// The place and name of the rule that decided. None: no rule matches.
    pub rule: Option<(usize, String)>,
    /// What is done with it.
    pub action: Action,
    /// The name of the peer. None: the first that is dialled.
    pub peer: Option<String>,
    /// Its priority.
    pub priority: Option<u8>,
    /// How long its datagrams may wait.
    pub lifetime: Option<Duration>,
}

/// A rule that can never match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the rule `{rule}` can never match, since the rule `{before}` stands before it and takes all that it is for: change their order, or leave one out"
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
        Ok(Self(rules))
    }

    /// Returns what becomes of a flow.
    pub fn decide(&self, key: &Key) -> Decision {
        let Some((at, rule)) = self.0.iter().enumerate().find(|(_, rule)| rule.matches(key)) else {
            return Decision::default();
        };
        Decision {
            rule: Some((at, rule.name.clone())),
            action: rule.action,
            peer: rule.peer.clone(),
            priority: rule.priority,
            lifetime: rule.lifetime,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Protocol;

    fn rules(text: &str) -> Vec<Rule> {
        #[derive(serde::Deserialize)]
        struct File {
            rule: Vec<Rule>,
        }
        whimbrel_service::parse_config::<File>("x.toml", text).unwrap().rule
    }

    fn key(protocol: Protocol, target: &str, source: &str) -> Key {
        Key { protocol, target: target.parse().unwrap(), source: source.parse().unwrap() }
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
