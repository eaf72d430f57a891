//! The settings of a proxy, as they stand in a file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use whimbrel::{PublicKey, TransportConfig};
use whimbrel_service::ServiceSettings;

use crate::compress::Method;
use crate::connector::{Connector, Listen, PeerUrl};
use crate::intercept::tproxy::{TproxyMistake, TproxySettings};
use crate::intercept::{Forward, Users};
use crate::policy::{Action, NeverMatches, Permit, Protocol, Rule, Rules};
use crate::relay::Limits;
use crate::text::as_text;

/// The settings of a proxy. In a file, each field is a section, and each peer a `[[peer]]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How programs' connections come in.
    #[serde(rename = "in")]
    pub ways_in: WaysIn,
    /// The peers.
    #[serde(rename = "peer")]
    pub peers: Vec<PeerSettings>,
    /// Where to listen for peers. Without this section, the proxy only dials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<Listen>,
    /// What becomes of flows: the first rule that matches decides. Without any, everything is carried.
    #[serde(rename = "rule")]
    pub rules: Vec<Rule>,
    /// The files of dictionaries for compression, by the names that rules give them.
    pub dictionaries: BTreeMap<String, PathBuf>,
    /// What flows may take.
    pub limits: Limits,
    /// The transport, with the settings of its sessions.
    pub transport: TransportConfig,
    /// Control socket, metrics and activity log.
    pub service: ServiceSettings,
}

/// How programs' connections come in. Without any, the proxy only serves its peers.
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
    /// Interception by TPROXY. Without this section there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tproxy: Option<TproxySettings>,
}

/// A peer. What comes in goes to the first one with a `url`, or to the first, unless a rule says otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerSettings {
    /// Its name in the status and in logs. Default: its key.
    #[serde(default)]
    pub name: Option<String>,
    /// Where it is dialled, with its key.
    #[serde(default)]
    pub url: Option<PeerUrl>,
    /// Its key, if it is not dialled.
    #[serde(default)]
    pub key: Option<PublicKey>,
    /// The name of the peer that new flows go to while this one cannot be reached.
    #[serde(default)]
    pub standby: Option<String>,
    /// What it may open here. Default: nothing.
    #[serde(default, with = "as_text::list")]
    pub may_open: Vec<Permit>,
}

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
    #[error("two peers have the key {0}: make one of them")]
    Twice(PublicKey),
    /// Programs' connections come in, and there is no peer they could go to.
    #[error(
        "there is no peer to carry connections to: add a [[peer]] with a `url`, or one with a `key` that connects to this proxy"
    )]
    NowhereToGo,
    /// The proxy would do nothing.
    #[error(
        "the proxy would do nothing: give it a way in ([in] socks, connect, forward or tproxy) and a [[peer]], a [[peer]] with a `url` that \
         `may_open` something, or a [listen] section"
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
    #[error("the rule `{0}` names the peer `{1}`, which there is not: give a [[peer]] that `name`")]
    NoSuchPeer(String, String),
    /// A peer's standby does not exist, or is itself.
    #[error(
        "the peer `{0}` has the standby `{1}`, which is no other peer's name: give another [[peer]] that `name`"
    )]
    NoSuchStandby(String, String),
    /// A rule would not carry datagrams.
    #[error("the rule `{0}` has the action `direct`, which is for TCP only: add protocol = \"tcp\"")]
    DirectDatagrams(String),
    /// A rule names a dictionary that does not exist.
    #[error(
        "the rule `{0}` names the dictionary `{1}`, which there is not: write `{1} = \"FILE\"` under [dictionaries]"
    )]
    NoSuchDictionary(String, String),
    /// A rule has a dictionary for nothing.
    #[error("the rule `{0}` has a dictionary, which only zstd can use: add compression = \"zstd:3\"")]
    DictionaryForNothing(String),
    /// A rule would compress what is not carried.
    #[error(
        "the rule `{0}` has a compression, which is for flows that are carried: leave it or the action out"
    )]
    CompressesNothing(String),
    /// The settings of interception make no sense.
    #[error(transparent)]
    Tproxy(#[from] TproxyMistake),
    /// A proxy without users serves everybody who reaches it.
    #[error("{0} is open to other hosts: set [in] users, or listen on a loopback address")]
    Open(SocketAddr),
}

impl PeerSettings {
    /// A peer that is dialled.
    pub fn dialled(url: PeerUrl) -> Self {
        Self { name: None, key: url.url.key, url: Some(url), standby: None, may_open: Vec::new() }
    }

    /// A peer that is waited for.
    pub fn of_key(key: PublicKey) -> Self {
        Self { name: None, key: Some(key), url: None, standby: None, may_open: Vec::new() }
    }

    /// Returns its key.
    ///
    /// # Errors
    /// It has none, or two.
    pub fn key(&self) -> Result<PublicKey, SettingsError> {
        match (self.key, self.url.as_ref().map(|url| url.url.key)) {
            (Some(key), Some(Some(other))) if key != other => Err(SettingsError::TwoKeys(key)),
            (Some(key), _) | (None, Some(Some(key))) => Ok(key),
            (None, _) => Err(SettingsError::NoKey),
        }
    }
}

impl Settings {
    /// Returns the peer that flows go to if no rule names one: the first that is dialled, or the first.
    pub fn first(&self) -> Option<&PeerSettings> {
        self.peers.iter().find(|peer| peer.url.is_some()).or(self.peers.first())
    }

    /// Returns the keys of all peers.
    pub fn keys(&self) -> BTreeSet<PublicKey> {
        self.peers.iter().filter_map(|peer| peer.key().ok()).collect()
    }

    /// Returns whether a session is carried by TCP, which another process cannot go on with.
    pub fn uses_tcp(&self) -> bool {
        let is_tcp = |connector: Connector| connector == Connector::Tcp;
        self.listen.as_ref().is_some_and(|listen| is_tcp(listen.connector))
            || self.peers.iter().filter_map(|peer| peer.url.as_ref()).any(|url| is_tcp(url.connector))
    }

    /// Returns the mark of what the proxy sends by itself. With it, its traffic is not intercepted.
    pub fn mark(&self) -> Option<u32> {
        self.ways_in.tproxy.as_ref().map(|tproxy| tproxy.mark)
    }

    /// Returns the sections that differ beyond what can change while the proxy runs.
    pub(crate) fn differences(&self, other: &Self) -> Vec<&'static str> {
        let without_permits = |settings: &Self| {
            let mut plain = settings.clone();
            plain.rules.clear();
            plain.peers.iter_mut().for_each(|peer| peer.may_open.clear());
            // Settings can always be written.
            serde_json::to_value(plain).unwrap_or_default()
        };
        let (ours, theirs) = (without_permits(self), without_permits(other));
        let sections = ["in", "peer", "listen", "dictionaries", "limits", "transport", "service"];
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
            if rule.action == Action::Direct && rule.protocol != Some(Protocol::Tcp) {
                return Err(SettingsError::DirectDatagrams(rule.name.clone()));
            }
            self.check_compression(rule)?;
        }
        Ok(())
    }

    fn check_compression(&self, rule: &Rule) -> Result<(), SettingsError> {
        if rule.compression.is_some() && rule.action != Action::Carry {
            return Err(SettingsError::CompressesNothing(rule.name.clone()));
        }
        let Some(dictionary) = &rule.dictionary else { return Ok(()) };
        if !rule.compression.is_some_and(Method::takes_dictionary) {
            return Err(SettingsError::DictionaryForNothing(rule.name.clone()));
        }
        match self.dictionaries.contains_key(dictionary) {
            true => Ok(()),
            false => Err(SettingsError::NoSuchDictionary(rule.name.clone(), dictionary.clone())),
        }
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
        }
        self.check_names()?;
        Rules::new(self.rules.clone())?;
        let WaysIn { socks, connect, users, forward, tproxy } = &self.ways_in;
        tproxy.as_ref().map_or(Ok(()), TproxySettings::check)?;
        let comes_in = socks.is_some() || connect.is_some() || !forward.is_empty() || tproxy.is_some();
        if comes_in && self.first().is_none() {
            return Err(SettingsError::NowhereToGo);
        }
        let serves = |peer: &PeerSettings| peer.url.is_some() && !peer.may_open.is_empty();
        if !comes_in && self.listen.is_none() && !self.peers.iter().any(serves) {
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
            (format!("{socks}{peer}name = 'a'\nstandby = 'b'"), "has the standby `b`"),
            (format!("{socks}{peer}name = 'a'\nstandby = 'a'"), "has the standby `a`"),
            (
                format!("{socks}{peer}[[rule]]\nname = 'r'\ncompression = 'gzip'"),
                "proxy.toml:7:15: `gzip` is no compression",
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
                "for flows that are carried",
            ),
            (format!("{socks}{peer}may_open = ['10.0.0.0/8']"), "proxy.toml:5:"),
            (format!("{socks}{peer}may_opn = []"), "unknown setting `may_opn`"),
            (format!("[in]\nforward = ['80']\n{peer}"), "is no forward"),
            (format!("[in.tproxy]\n{peer}"), "intercepts nothing"),
            (format!("{socks}{peer}[[rule]]\nname = 'r'\naccept = 'late'"), "late"),
        ] {
            let error = check(&text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        check(&format!("[in]\nsocks = '0.0.0.0:1080'\nusers = {{ anna = 'secret' }}\n{peer}")).unwrap();
    }
}
