//! The settings of a proxy, as they stand in a file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use whimbrel::{PublicKey, TransportConfig};
use whimbrel_service::ServiceSettings;

use crate::connector::{Connector, Listen};
use crate::intercept::tproxy::TproxySettings;
use crate::intercept::tun::TunSettings;
use crate::intercept::{Forward, Users};
use crate::multicast::MulticastSettings;
use crate::peer_settings::PeerSettings;
use crate::policy::{Rule, Rules};
use crate::relay::Limits;
use crate::rule_mistake::RuleMistake;
use crate::settings_error::SettingsError;
use crate::text::as_text;

/// The settings of a proxy. In a file, each field is a section, and each peer a `[[peer]]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The ways in for programs' connections.
    #[serde(rename = "in")]
    pub ways_in: WaysIn,
    /// The peers.
    #[serde(rename = "peer")]
    pub peers: Vec<PeerSettings>,
    /// The addresses to listen on for peers. Without this section, the proxy only dials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<Listen>,
    /// The rules that decide on flows. The first that matches decides. Without any, everything is carried.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
    /// The files of dictionaries for compression, by the names that rules give them.
    pub dictionaries: BTreeMap<String, PathBuf>,
    /// Multicast. Off without this section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multicast: Option<MulticastSettings>,
    /// The limits on what flows take.
    pub limits: Limits,
    /// The transport, with the settings of its sessions.
    pub transport: TransportConfig,
    /// Control socket, metrics and activity log.
    pub service: ServiceSettings,
}

/// The ways in for programs' connections. Without any, the proxy only serves its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WaysIn {
    /// The address for SOCKS5.
    pub socks: Option<SocketAddr>,
    /// The address for HTTP CONNECT.
    pub connect: Option<SocketAddr>,
    /// Users and passwords for SOCKS5. Without any, everybody who reaches the port may use it.
    pub users: Users,
    /// Ports that stand for a target behind the peer.
    #[serde(with = "as_text::list")]
    pub forward: Vec<Forward>,
    /// Interception by TPROXY. Off without this section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tproxy: Option<TproxySettings>,
    /// Interception by a TUN interface. Off without this section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tun: Option<TunSettings>,
}

impl Settings {
    /// Returns the peer that flows go to if no rule names one: the first that is dialled, or the first.
    pub fn first(&self) -> Option<&PeerSettings> {
        self.peers.iter().find(|peer| peer.dials().is_some()).or(self.peers.first())
    }

    /// Returns the key of that peer.
    pub(crate) fn first_key(&self) -> Option<PublicKey> {
        self.first().and_then(|peer| peer.key().ok())
    }

    /// Returns the keys of all peers.
    pub(crate) fn keys_of_all(&self) -> BTreeSet<PublicKey> {
        self.peers.iter().filter_map(|peer| peer.key().ok()).collect()
    }

    /// Returns the settings of the peer with this key.
    pub(crate) fn peer(&self, key: &PublicKey) -> Option<&PeerSettings> {
        self.peers.iter().find(|peer| peer.key().is_ok_and(|known| known == *key))
    }

    /// Returns the keys of all peers that may connect.
    pub fn keys(&self) -> BTreeSet<PublicKey> {
        self.peers.iter().filter(|peer| peer.may_come()).filter_map(|peer| peer.key().ok()).collect()
    }

    /// Returns whether a session is carried by TCP, which another process cannot go on with.
    pub fn uses_tcp(&self) -> bool {
        let is_tcp = |connector: Connector| connector == Connector::Tcp;
        self.listen.as_ref().is_some_and(|listen| is_tcp(listen.connector))
            || self.peers.iter().filter_map(|peer| peer.url.as_ref()).any(|url| is_tcp(url.connector))
    }

    /// Returns the mark of what the proxy sends by itself. With it, its traffic is not intercepted.
    pub fn mark(&self) -> Option<u32> {
        let tproxy = self.ways_in.tproxy.as_ref().map(|tproxy| tproxy.mark);
        tproxy.or_else(|| self.ways_in.tun.as_ref().map(|tun| tun.mark))
    }

    /// Returns the sections that differ beyond what can change while the proxy runs.
    pub(crate) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let without_live = |settings: &Self| {
            let mut plain = settings.clone();
            plain.rules.clear();
            plain.peers.clear();
            // Settings can always be written.
            serde_json::to_value(plain).unwrap_or_default()
        };
        let (ours, theirs) = (without_live(self), without_live(other));
        let sections = ["in", "listen", "dictionaries", "multicast", "limits", "transport", "service"];
        sections.into_iter().filter(|section| ours.get(section) != theirs.get(section)).collect()
    }

    fn check_names(&self) -> Result<(), SettingsError> {
        let (mut peers, mut rules) = (BTreeSet::new(), BTreeSet::new());
        for name in self.peers.iter().filter_map(|peer| peer.name.as_ref()) {
            if !peers.insert(name) {
                return Err(SettingsError::SameName(name.clone()));
            }
        }
        for peer in &self.peers {
            let Some(standby) = &peer.standby else { continue };
            if !peers.contains(standby) || peer.name.as_ref() == Some(standby) {
                let name = peer.name.clone().unwrap_or_else(|| "without a name".to_owned());
                return Err(SettingsError::NoSuchStandby(name, standby.clone()));
            }
        }
        for rule in &self.rules {
            if !rules.insert(&rule.name) {
                return Err(SettingsError::SameRule(rule.name.clone()));
            }
            if let Some(peer) = rule.peer.as_ref().filter(|peer| !peers.contains(peer)) {
                return Err(SettingsError::NoSuchPeer(rule.name.clone(), peer.clone()));
            }
            RuleMistake::check(rule, |name| self.dictionaries.contains_key(name))?;
        }
        Ok(())
    }

    /// Checks that no two listeners have one port.
    fn check_ports(&self) -> Result<(), SettingsError> {
        let WaysIn { socks, connect, forward, .. } = &self.ways_in;
        let listen = self.listen.as_ref().filter(|listen| listen.connector == Connector::Tcp);
        let all: Vec<(String, SocketAddr)> = socks
            .iter()
            .map(|address| ("in.socks".to_owned(), *address))
            .chain(connect.iter().map(|address| ("in.connect".to_owned(), *address)))
            .chain(
                forward.iter().enumerate().map(|(at, forward)| (format!("in.forward.{at}"), forward.listen)),
            )
            .chain(
                listen
                    .and_then(|listen| listen.settings.address)
                    .map(|address| ("listen.address".to_owned(), address)),
            )
            .collect();
        for (at, (second, address)) in all.iter().enumerate() {
            if let Some((first, _)) = all[..at].iter().find(|(_, other)| have_one_port(*other, *address)) {
                return Err(SettingsError::OnePort(first.clone(), second.clone(), address.port()));
            }
        }
        Ok(())
    }

    /// Checks what no single line shows.
    ///
    /// # Errors
    /// See [`SettingsError`].
    pub fn check(&self) -> Result<(), SettingsError> {
        let mut keys = BTreeSet::new();
        for peer in &self.peers {
            let key = peer.key()?;
            if !keys.insert(key) {
                return Err(SettingsError::Twice(key));
            }
            peer.check(self.listen.is_some())?;
        }
        self.check_names()?;
        self.limits.check()?;
        Rules::new(self.rules.clone())?;
        let WaysIn { socks, connect, users, forward, tproxy, tun } = &self.ways_in;
        if let Some(user) = users.mistaken() {
            return Err(SettingsError::User(user.to_owned()));
        }
        self.check_ports()?;
        tproxy.as_ref().map_or(Ok(()), TproxySettings::check)?;
        tun.as_ref().map_or(Ok(()), TunSettings::check)?;
        if tproxy.is_some() && tun.is_some() {
            return Err(SettingsError::TwoInterceptions);
        }
        let is_peer = |name: &str| self.peers.iter().any(|peer| peer.name.as_deref() == Some(name));
        self.multicast.as_ref().map_or(Ok(()), |multicast| multicast.check(is_peer))?;
        let carries = self.multicast.as_ref().is_some_and(MulticastSettings::carries_to_peers);
        let disseminates = self.multicast.as_ref().is_some_and(|multicast| multicast.broker.is_some());
        let intercepts = tproxy.is_some() || tun.is_some();
        let comes_in = socks.is_some() || connect.is_some() || !forward.is_empty() || intercepts || carries;
        if comes_in && self.first().is_none() {
            return Err(SettingsError::NowhereToGo);
        }
        let serves = |peer: &PeerSettings| peer.dials().is_some() && !peer.may_open.is_empty();
        if !comes_in && !disseminates && self.listen.is_none() && !self.peers.iter().any(serves) {
            return Err(SettingsError::Nothing);
        }
        // SOCKS5 asks for a password, CONNECT does not.
        let open = [socks.filter(|_| *users == Users::default()), *connect].into_iter().flatten();
        match open.into_iter().find(|address| !address.ip().to_canonical().is_loopback()) {
            Some(address) => Err(SettingsError::Open(address)),
            None => Ok(()),
        }
    }
}

/// Returns whether only one of two listeners can have its address. Port 0 is any free one.
fn have_one_port(one: SocketAddr, other: SocketAddr) -> bool {
    let takes_all = |wide: SocketAddr, narrow: SocketAddr| {
        wide.ip().is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
    };
    one.port() == other.port()
        && one.port() != 0
        && (one.ip() == other.ip() || takes_all(one, other) || takes_all(other, one))
}

#[cfg(test)]
mod tests {
    use whimbrel_service::parse_config;

    use super::*;

    fn check(text: &str) -> Result<(), String> {
        let settings: Settings = parse_config("proxy.toml", text).map_err(|error| error.to_string())?;
        settings.check().map_err(|error| error.to_string())
    }

    #[test]
    fn settings_are_checked() {
        let key = whimbrel::new_identity().public();
        let peer = format!("[[peer]]\nurl = 'whimbrel://{key}@host:4433'\n");
        let socks = "[in]\nsocks = '127.0.0.1:1080'\n";
        check(&format!("{socks}{peer}may_open = ['10.0.0.0/8:22', '*.example.org:*']")).unwrap();
        check("[listen]\n").unwrap();
        for (text, part) in [
            (String::new(), "would do nothing"),
            (socks.to_owned(), "no peer to carry"),
            (format!("{socks}[[peer]]\nname = 'x'"), "has no key"),
            (format!("{socks}{peer}{peer}"), "two peers have the key"),
            (format!("[in]\nsocks = '0.0.0.0:1080'\n{peer}"), "open to other hosts"),
            (format!("{socks}{peer}name = 'a'\n[[rule]]\nname = 'r'\npeer = 'b'"), "names the peer `b`"),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\n[[rule]]\nname = 'r'\nto = ['*:25']"),
                "two rules are called",
            ),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\n[[rule]]\nname = 's'\nto = ['*:25']"),
                "`s` can never match",
            ),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\naction = 'direct'"), "for TCP only"),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\naction = 'carri'"), "carri"),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\nto = ['10.0.0.0/8:icmp']"), "mixes ports and ICMP"),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\nprotocol = 'icmp'\nto = ['10.0.0.0/8:*']"),
                "mixes ports and ICMP",
            ),
            (format!("{socks}{peer}name = 'a'\nstandby = 'b'"), "has the standby `b`"),
            (format!("{socks}{peer}name = 'a'\nstandby = 'a'"), "has the standby `a`"),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\ncompression = 'gzip'"),
                "proxy.toml:7:15: `gzip` is not a compression",
            ),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\ncompression = 'zstd'\ndictionary = 'd'"),
                "names the dictionary `d`",
            ),
            (
                format!(
                    "{socks}{peer}[dictionaries]\nd = 'f'\n[[rule]]\nname = 'r'\ncompression = 'xz'\ndictionary = 'd'"
                ),
                "which only zstd can use",
            ),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\naction = 'drop'\ncompression = 'zstd'"),
                "has `compression`, which applies to carried flows only",
            ),
            (format!("{socks}{peer}mode = 'passive'"), "nobody can come in"),
            (format!("{socks}[[peer]]\nkey = '{key}'\nmode = 'active'"), "no `url` at which to dial it"),
            (format!("{socks}{peer}paths = ['10.0.0.300']"), "proxy.toml:5:"),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\ncap = '2 MB'"),
                "proxy.toml:7:7: `2 MB` is not a rate",
            ),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\nservice = 'ux'"), "`ux` is not a service"),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\nby = 'web'"), "`web` is not a way in"),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\ndscp = 64"), "`64` is not a DSCP"),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\ndns = 'cached'"), "cached"),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\ngather = '1s'"), "at most 500ms"),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\nby = 'socks'\ndscp = 'ef'"), "can never match"),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\nprotocol = 'tcp'\nservice = 'ru'"),
                "has `service`, which is for datagrams",
            ),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\naction = 'drop'\ncap = '1mbit'"),
                "has `cap`, which applies to carried flows only",
            ),
            (format!("{socks}{peer}may_open = ['10.0.0.0/8']"), "proxy.toml:5:"),
            (format!("{socks}{peer}may_opn = []"), "unknown setting `may_opn`"),
            (format!("[in]\nforward = ['80']\n{peer}"), "is not a forward"),
            (format!("{socks}{peer}[limits]\nmax_connecting_per_peer = 0"), "would wait forever"),
            (format!("[in.tproxy]\n{peer}"), "intercepts nothing"),
            (format!("[multicast]\ninterfaces = ['lan0']\ngroups = ['10.0.0.1:5']\n{peer}"), "not a group"),
            ("[multicast]\ninterfaces = ['lan0']\ngroups = ['239.0.0.1:5']".to_owned(), "no peer to carry"),
            (format!("[in.tun]\n{peer}"), "[in.tun] intercepts nothing"),
            (format!("[in.tun]\nroutes = ['10.0.0.0/33']\n{peer}"), "proxy.toml:2:"),
            (format!("[in.tun]\nstack = 'users'\n{peer}"), "proxy.toml:2:9"),
            (format!("[in.tun]\nown_ipv4 = '10.0.0.0'\n{peer}"), "proxy.toml:2:12"),
            (
                format!("[in.tun]\nroutes = '10.0.0.0/8'\n[in.tproxy]\noutput = true\n{peer}"),
                "would take traffic from each other",
            ),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\naccept = 'late'"), "late"),
        ] {
            let error = check(&text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        check(&format!("[in]\nsocks = '0.0.0.0:1080'\nusers = {{ anna = 'secret' }}\n{peer}")).unwrap();
    }
}
