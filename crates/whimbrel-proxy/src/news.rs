//! The news that people should know.

use std::net::SocketAddr;
use std::sync::Arc;

use whimbrel::PublicKey;

use crate::policy::Condition;
use crate::relay::PeerState;

/// Something that people should know.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// Programs can connect here.
    Serves(&'static str, SocketAddr),
    /// The fate of intercepted traffic from now on, in words.
    Interception(&'static str),
    /// Traffic is intercepted and not served, for this reason.
    Failed(String),
    /// Groups do not go through the broker, for this reason.
    Groups(String),
    /// A peer that is dialled came or went.
    Peer(Arc<str>, PeerState),
    /// A peer has connected to this proxy.
    Came(Arc<str>),
    /// A peer that had connected to this proxy is gone, for this reason.
    Went(Arc<str>, String),
    /// A client is not let in, since nobody knows its key.
    Refused {
        /// Its key.
        key: PublicKey,
        /// Its address, if that is known.
        from: Option<SocketAddr>,
        /// The number of earlier ones that were not reported.
        others: u64,
    },
    /// Hosts behind this interface are to be served, and there is none of this name.
    NoInterface(String),
    /// New flows for the first go to the second, its standby, from now on, or no longer.
    Standby(Arc<str>, Arc<str>, bool),
    /// A session with this peer could not be handed over or taken over, for this reason. Its flows are reset.
    Lost(Arc<str>, String),
    /// A condition of rules holds towards this peer from now on, or no longer.
    Condition(Arc<str>, Condition, bool),
}

impl std::fmt::Display for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Serves(what, address) => write!(f, "{what} on {address}"),
            Self::Interception(what) => f.write_str(what),
            Self::Failed(why) => write!(f, "cannot serve intercepted traffic: {why}"),
            Self::Groups(why) => write!(f, "[multicast.broker] {why}"),
            Self::Peer(peer, PeerState::Connected) => write!(f, "connected to {peer}"),
            Self::Peer(peer, PeerState::Failed(why)) => {
                write!(f, "not connected to {peer}: {why}; trying again")
            }
            Self::Came(peer) => write!(f, "{peer} has connected"),
            Self::Went(peer, why) => write!(f, "{peer} is no longer connected: {why}"),
            Self::Refused { key, from, others } => {
                let at = from.map_or_else(String::new, |from| format!(" at {from}"));
                write!(
                    f,
                    "refused {key}{at}, since no [[peer]] with this key may connect: add one, or --allow it"
                )?;
                match others {
                    0 => Ok(()),
                    1 => f.write_str("; another one before it was not shown"),
                    others => write!(f, "; {others} others before it were not shown"),
                }
            }
            Self::NoInterface(name) => write!(
                f,
                "there is no interface `{name}` yet: hosts behind it are served once there is; `ip link` lists those that exist"
            ),
            Self::Standby(peer, standby, true) => {
                write!(f, "{peer} cannot be reached: new flows go to {standby}")
            }
            Self::Standby(peer, _, false) => write!(f, "new flows go to {peer} again"),
            Self::Lost(peer, why) => write!(f, "the session with {peer} was lost on the way: {why}"),
            Self::Condition(peer, condition, true) => write!(f, "towards {peer}, `{condition}` holds now"),
            Self::Condition(peer, condition, false) => {
                write!(f, "towards {peer}, `{condition}` no longer holds")
            }
            Self::Peer(peer, PeerState::Absent) => write!(f, "not connected to {peer}"),
        }
    }
}

/// The callback that hears of [`News`].
#[derive(Clone)]
pub(crate) struct Tell(pub(crate) Arc<dyn Fn(News) + Send + Sync>);

impl std::fmt::Debug for Tell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tell")
    }
}
