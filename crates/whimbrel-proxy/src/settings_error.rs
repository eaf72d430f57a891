//! Mistakes in the settings of a proxy that no single setting has, and where a file has them.

use std::net::SocketAddr;

use whimbrel::PublicKey;

use crate::intercept::tproxy::TproxyMistake;
use crate::intercept::tun::TunMistake;
use crate::multicast::MulticastMistake;
use crate::policy::NeverMatches;
use crate::relay::LimitMistake;
use crate::rule_mistake::RuleMistake;
use crate::settings::Settings;

/// A mistake that no single line has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A peer has neither key nor URL, or a URL without a key.
    #[error("a [[peer]] has no key: write `key = \"…\"`, or `url = \"whimbrel://KEY@HOST:PORT\"`")]
    NoKey,
    /// A peer's key and URL differ.
    #[error("the peer {0} has another key in its url: leave `key` out")]
    TwoKeys(PublicKey),
    /// Two peers have one key.
    #[error("two peers have the key {0}: merge them into one")]
    Twice(PublicKey),
    /// Programs' connections come in, and there is no peer they could go to.
    #[error(
        "there is no peer to carry connections to: give --peer URL, or a [[peer]] with a `url`, or one with a `key` that connects to this proxy"
    )]
    NowhereToGo,
    /// The proxy would do nothing.
    #[error(
        "the proxy would do nothing. Give it a way in (--socks, --connect, --forward or [in]) and a peer (--peer or [[peer]]). Or let it listen (--listen or [listen]), or dial a [[peer]] that `may_open` something"
    )]
    Nothing,
    /// Two peers have one name.
    #[error("two peers are called `{0}`: rename one")]
    SameName(String),
    /// A rule can never match.
    #[error(transparent)]
    NeverMatches(#[from] NeverMatches),
    /// Two rules have one name.
    #[error("two rules are called `{0}`: rename one")]
    SameRule(String),
    /// A rule names a peer that does not exist.
    #[error(
        "the rule `{0}` names the peer `{1}`, but no [[peer]] has that `name`: correct it, or add the peer"
    )]
    NoSuchPeer(String, String),
    /// A peer's standby does not exist, or is itself.
    #[error(
        "the peer `{0}` has the standby `{1}`, but no other [[peer]] has that `name`: correct it, or add the peer"
    )]
    NoSuchStandby(String, String),
    /// A peer can never be there.
    #[error("the peer `{0}` has the mode `{1}`, {2}")]
    NeverThere(String, &'static str, &'static str),
    /// A rule says something that has no effect.
    #[error(transparent)]
    Rule(#[from] RuleMistake),
    /// The settings of multicast make no sense.
    #[error(transparent)]
    Multicast(#[from] MulticastMistake),
    /// A limit is too low for anything to be carried.
    #[error(transparent)]
    Limit(#[from] LimitMistake),
    /// Nobody can give this user and password.
    #[error(
        "[in] users: `{0}` or its password is empty or longer than 255 bytes: SOCKS5 allows 1 to 255 bytes for each"
    )]
    User(String),
    /// Two listeners have one port.
    #[error("{0} and {1} both listen on port {2}: give one of them another port")]
    OnePort(String, String, u16),
    /// The settings of interception make no sense.
    #[error(transparent)]
    Tproxy(#[from] TproxyMistake),
    /// The settings of interception make no sense.
    #[error(transparent)]
    Tun(#[from] TunMistake),
    /// Two ways in would take traffic from one another.
    #[error("[in.tproxy] and [in.tun] would take traffic from each other: remove one of them")]
    TwoInterceptions,
    /// A proxy without users serves everybody who reaches it.
    #[error("{0} is open to other hosts: listen on loopback, or, with SOCKS5 only, set [in] users")]
    Open(SocketAddr),
}

impl SettingsError {
    /// Returns the setting that is at fault, with its sections, such as `in.socks` or `rule.0.to`. A list counts from 0. None: it
    /// is the whole file.
    pub fn place(&self, settings: &Settings) -> Option<String> {
        let peers = || settings.peers.iter();
        let peer = |at: Option<usize>, setting: &str| at.map(|at| format!("peer.{at}{setting}"));
        let rule = |name: &str, setting: &str| {
            let at = settings.rules.iter().position(|rule| rule.name == name)?;
            Some(format!("rule.{at}.{setting}"))
        };
        // Of two, the second is at fault.
        let last_peer = |name: &str| peers().rposition(|peer| peer.name.as_deref() == Some(name));
        match self {
            Self::NoKey => peer(peers().position(|peer| matches!(peer.key(), Err(Self::NoKey))), ""),
            Self::TwoKeys(key) => peer(peers().position(|peer| peer.key == Some(*key)), ".key"),
            Self::Twice(key) => {
                let at = peers().rposition(|peer| peer.key().is_ok_and(|known| known == *key))?;
                peer(Some(at), if settings.peers[at].url.is_some() { ".url" } else { ".key" })
            }
            Self::SameName(name) => peer(last_peer(name), ".name"),
            Self::NoSuchStandby(_, standby) => {
                let has_it = |name: &str| peers().any(|peer| peer.name.as_deref() == Some(name));
                let is_wrong = |named: &Option<String>, own: &Option<String>| {
                    named.as_ref() == Some(standby) && (!has_it(standby) || named == own)
                };
                peer(peers().position(|peer| is_wrong(&peer.standby, &peer.name)), ".standby")
            }
            Self::NeverThere(name, ..) => {
                let at = last_peer(name)
                    .or_else(|| peers().position(|peer| peer.check(settings.listen.is_some()).is_err()));
                peer(at, ".mode")
            }
            Self::NeverMatches(mistake) => rule(&mistake.rule, "name"),
            Self::SameRule(name) => {
                let at = settings.rules.iter().rposition(|rule| rule.name == *name)?;
                Some(format!("rule.{at}.name"))
            }
            Self::NoSuchPeer(name, _) => rule(name, "peer"),
            Self::Rule(mistake) => rule(mistake.rule(), mistake.setting()),
            Self::Multicast(mistake) => Some(format!("multicast.{}", mistake.setting())),
            Self::Limit(mistake) => Some(format!("limits.{}", mistake.setting)),
            Self::Tproxy(mistake) => Some(format!("in.tproxy.{}", mistake.setting())),
            Self::Tun(mistake) => Some(format!("in.tun.{}", mistake.setting())),
            Self::TwoInterceptions => Some("in.tun".to_owned()),
            Self::User(name) => Some(format!("in.users.{name}")),
            Self::OnePort(_, second, _) => Some(second.clone()),
            Self::Open(address) if settings.ways_in.connect == Some(*address) => {
                Some("in.connect".to_owned())
            }
            Self::Open(_) => Some("in.socks".to_owned()),
            Self::NowhereToGo | Self::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_service::{parse_config, refuse_setting};

    use super::*;

    /// Says what is wrong with a file, and where.
    fn says(text: &str) -> String {
        let settings: Settings = match parse_config("x.toml", text) {
            Ok(settings) => settings,
            Err(error) => return error.to_string(),
        };
        let Err(error) = settings.check() else { return "nothing".to_owned() };
        match error.place(&settings) {
            Some(place) => refuse_setting("x.toml", text, &place, &error.to_string()).to_string(),
            None => format!("x.toml: {error}"),
        }
    }

    /// A file with a way in and a peer, on six lines.
    fn with(more: &str) -> String {
        let key = whimbrel::new_identity().public();
        format!(
            "[in]\nsocks = '127.0.0.1:1080'\n\n[[peer]]\nname = 'far'\nurl = 'whimbrel://{key}@host:4433'\n{more}"
        )
    }

    #[test]
    fn regression_a_mistake_of_the_whole_file_is_shown_where_it_is() {
        let key = whimbrel::new_identity().public();
        assert_eq!(says(&with("")), "nothing");
        for (text, place, part) in [
            (with("[[peer]]\nname = 'b'"), "7:1", "has no key"),
            (with(&format!("[[peer]]\nname = 'far'\nkey = '{key}'")), "8:8", "two peers are called `far`"),
            (with(&format!("key = '{key}'")), "7:7", "another key in its url"),
            (with(&format!("[[peer]]\nkey = '{key}'\n[[peer]]\nkey = '{key}'")), "10:7", "two peers have"),
            (with("standby = 'x'"), "7:11", "standby `x`"),
            (with("mode = 'passive'"), "7:8", "nobody can come in"),
            (with("[[rule]]\nname = 'r'\npeer = 'x'"), "9:8", "names the peer `x`"),
            (with("[[rule]]\nname = 'r'\n[[rule]]\nname = 's'"), "10:8", "`s` can never match"),
            (with("[[rule]]\nname = 'r'\nto = '*:1'\n[[rule]]\nname = 'r'"), "11:8", "two rules"),
            (with("[[rule]]\nname = 'r'\nto = ['10.0.0.0/8:icmp']"), "9:6", "mixes ports and ICMP"),
            (with("[limits]\nmax_flows = 0"), "8:13", "every flow would be refused"),
            (with("[limits]\nmax_connecting_per_peer = 0"), "8:27", "would wait forever"),
            (with("[limits]\nconnect_timeout = '0s'"), "8:19", "no connection would be made"),
            (with("[multicast]\ninterfaces = ['lan0']\nttl = 0"), "9:7", "ttl: it must not be 0"),
            (with("[multicast]\ngroups = ['239.1.2.3:5']"), "7:1", "names no interfaces"),
            (with("[in.tproxy]\n"), "7:1", "intercepts nothing"),
            (with("[in.tun]\nroutes = '10.0.0.0/8'\nmark = 0"), "9:8", "must not be 0"),
            (with("").replace("127.0.0.1", "0.0.0.0"), "2:9", "is open to other hosts"),
            (with("[in.users]\nanna = ''"), "8:8", "`anna` or its password is empty"),
        ] {
            let said = says(&text);
            assert!(said.starts_with(&format!("x.toml:{place}: ")) && said.contains(part), "{text}: {said}");
        }
        let said = says("[in]\nsocks = '127.0.0.1:1080'\n");
        assert!(said.starts_with("x.toml: there is no peer"), "{said}");
    }

    #[test]
    fn regression_an_empty_list_of_a_rule_is_refused() {
        for setting in ["to", "from", "by", "interface", "dscp", "when"] {
            let said = says(&with(&format!("[[rule]]\nname = 'r'\n{setting} = []\naction = 'reject'")));
            let column = setting.len() + 4;
            assert!(said.starts_with(&format!("x.toml:9:{column}: the list is empty: write")), "{said}");
        }
        for text in ["paths = []", "[multicast]\ninterfaces = ['lan0']\npeers = []"] {
            assert!(says(&with(text)).contains("the list is empty: write at least one entry"), "{text}");
        }
    }

    #[test]
    fn regression_an_address_that_is_none_is_told_with_an_example() {
        for (text, wanted) in [
            (
                "[in]\nsocks = '1080'",
                "2:9: `'1080'` is not an address with a port: write for example \"127.0.0.1:4433\"",
            ),
            ("[in]\nsocks = 1080", "2:9: `1080` is not allowed here: write an address with a port, such as"),
            (
                "[[rule]]\nname = 'r'\nfrom = ['10.0.0.0/8', '10.0.0.300']",
                "3:23: `10.0.0.300` is not a network: write",
            ),
            (
                "[[rule]]\nname = 'r'\nfrom = '10.0.0.7'",
                "3:8: `10.0.0.7` is an address, not a network: write 10.0.0.7/32",
            ),
            ("[in.tproxy]\nexcept = ['lan']", "2:11: `lan` is not a network: write for example 10.0.0.0/8"),
            ("[in.tun]\nroutes = ['10.0.0.0/33']", "2:11: `10.0.0.0/33` is not a network"),
            ("[multicast]\ngroups = ['239.1.2.3']", "2:11: `239.1.2.3` is not a group with a port: write"),
            ("[[rule]]\nname = 'r'\nto = true", "3:6: `true` is not allowed here: write a text, or a list"),
        ] {
            let said = says(text);
            assert!(said.starts_with(&format!("x.toml:{wanted}")), "{text}: {said}");
        }
    }

    #[test]
    fn regression_what_has_no_effect_is_refused() {
        let rule = |more: &str| with(&format!("[[rule]]\nname = 'r'\n{more}"));
        for (text, part) in [
            (
                rule("protocol = 'udp'\nhold_bytes = '1MB'"),
                "x.toml:10:14: the rule `r` has `hold_bytes`, which is for TCP",
            ),
            (
                rule("protocol = 'udp'\noutage = '1s'"),
                "has `outage`, which is for TCP flows, but protocol = \"udp\"",
            ),
            (rule("protocol = 'icmp'\naccept = 'early'"), "but protocol = \"icmp\": leave one of them out"),
            (rule("existing = true"), "x.toml:9:12: the rule `r` has `existing`, which resets running flows"),
            (rule("action = 'hold'\nexisting = true"), "an action that lets them run"),
            (
                rule("when = ['loss > 10%', 'loss < 5%']"),
                "x.toml:9:8: the rule `r` can never match: `loss > 10%` and",
            ),
            (rule("when = 'paths < 0'"), "`paths < 0` in `when` never holds"),
        ] {
            let said = says(&text);
            assert!(said.contains(part), "{text}: {said}");
        }
        assert_eq!(says(&rule("action = 'direct'\nprotocol = 'tcp'\nexisting = true")), "nothing");
    }

    #[test]
    fn regression_two_ways_in_with_one_port_are_refused() {
        let key = whimbrel::new_identity().public();
        let peer = format!("[[peer]]\nkey = '{key}'\n");
        for (text, wrong) in [
            (
                "[in]\nsocks = '127.0.0.1:1'\nconnect = '127.0.0.1:1'\n",
                Some("3:11: in.socks and in.connect both"),
            ),
            (
                "[in]\nsocks = '127.0.0.1:1'\nforward = ['2=a.b:1', '1=a.b:1']\n",
                Some("3:23: in.socks and in.forward.1"),
            ),
            ("[in]\nforward = ['[::]:1=a.b:1', '127.0.0.1:1=a.b:1']\n", Some("2:28: ")),
            (
                "[in]\nforward = ['9=a.b:1']\n[listen]\nconnector = 'tcp'\naddress = '[::]:9'\n",
                Some("5:11: in.forward.0 and listen.address"),
            ),
            ("[in]\nforward = ['9=a.b:1']\n[listen]\naddress = '[::]:9'\n", None),
            ("[in]\nsocks = '127.0.0.1:0'\nconnect = '127.0.0.1:0'\n", None),
            ("[in]\nsocks = '127.0.0.1:1'\nconnect = '127.0.0.2:1'\n", None),
        ] {
            let said = says(&format!("{text}{peer}"));
            let wanted = wrong.map_or("nothing".to_owned(), |wrong| format!("x.toml:{wrong}"));
            assert!(said.starts_with(&wanted), "{text}: {said}");
        }
    }
}
