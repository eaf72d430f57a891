//! The settings of a peer, as they stand in a file.

use serde::{Deserialize, Serialize};
use whimbrel::{LocalPath, PublicKey};

use crate::connector::PeerUrl;
use crate::policy::{Pattern, Permit, Permits};
use crate::settings_error::SettingsError;
use crate::sources::Sources;
use crate::text::as_text;

/// A peer. What comes in goes to the first one with a `url`, or to the first, unless a rule says otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerSettings {
    /// Its name in the status and in logs. Default: its key.
    #[serde(default)]
    pub name: Option<String>,
    /// The address at which it is dialled, with its key.
    #[serde(default)]
    pub url: Option<PeerUrl>,
    /// Its key, if it is not dialled.
    #[serde(default)]
    pub key: Option<PublicKey>,
    /// The end that begins a session with it.
    /// Default: this proxy if there is a `url`, and the peer, too, if this proxy listens.
    #[serde(default)]
    pub mode: Mode,
    /// The addresses of this host over which it is reached, with their cost, if only they are to be used. Default: all.
    #[serde(default, with = "as_text::some")]
    pub paths: Vec<LocalPath>,
    /// The name of the peer that new flows go to while this one cannot be reached.
    #[serde(default)]
    pub standby: Option<String>,
    /// The targets that it may open here. Default: none.
    #[serde(default, with = "as_text::list")]
    pub may_open: Vec<Permit>,
    /// The targets that learn whose connection it is, by the PROXY protocol, version 2. Default: none.
    #[serde(default, with = "as_text::list")]
    pub proxy_protocol: Vec<Pattern>,
    /// The networks of programs in whose names it may speak here: their connections and datagrams have their own addresses.
    /// Default: none.
    #[serde(default)]
    pub source: Sources,
}

/// The end that begins a session with a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Either end.
    #[default]
    Both,
    /// This proxy. The peer is not let in.
    Active,
    /// The peer. It is not dialled.
    Passive,
}

impl PeerSettings {
    /// A peer that is dialled.
    pub fn dialled(url: PeerUrl) -> Self {
        Self { key: url.url.key, url: Some(url), ..Self::unknown() }
    }

    /// A peer that is waited for.
    pub fn of_key(key: PublicKey) -> Self {
        Self { key: Some(key), ..Self::unknown() }
    }

    fn unknown() -> Self {
        Self {
            name: None,
            url: None,
            key: None,
            mode: Mode::default(),
            paths: Vec::new(),
            standby: None,
            may_open: Vec::new(),
            proxy_protocol: Vec::new(),
            source: Sources::default(),
        }
    }

    /// Returns the name by which people know it.
    pub(crate) fn shown_name(&self, key: &PublicKey) -> String {
        self.name.clone().unwrap_or_else(|| key.to_string())
    }

    /// Returns where it is dialled, if it is.
    pub fn dials(&self) -> Option<&PeerUrl> {
        self.url.as_ref().filter(|_| self.mode != Mode::Passive)
    }

    /// Returns whether the peer may connect.
    pub fn may_come(&self) -> bool {
        self.mode != Mode::Active
    }

    /// Returns what it may open.
    pub fn permits(&self) -> Permits {
        let permits = Permits::new(self.may_open.iter().cloned());
        permits
            .introducing(self.proxy_protocol.iter().cloned())
            .speaking_for(self.source.networks().iter().copied())
    }

    /// Checks that it can ever be there.
    pub(crate) fn check(&self, listens: bool) -> Result<(), SettingsError> {
        let (mode, why) = match self.mode {
            Mode::Active if self.url.is_none() => ("active", "and no `url` at which to dial it: add one"),
            Mode::Passive if !listens => ("passive", "and nobody can come in: add a [listen] section"),
            Mode::Active | Mode::Passive | Mode::Both => return Ok(()),
        };
        let name = self.name.clone().unwrap_or_else(|| "without a name".to_owned());
        Err(SettingsError::NeverThere(name, mode, why))
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
