//! A TCP flow as one process hands it over to the other.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::channel::Saved;
use super::record::FlowRecord;
use crate::flow::InHand;
use crate::policy::Origin;

/// A TCP flow that was taken apart.
#[derive(Debug)]
pub(crate) struct FlowParcel {
    pub(crate) program: OwnedFd,
    pub(crate) other: OtherEnd,
    pub(crate) hand: InHand,
    pub(crate) note: FlowNote,
}

/// The other end of a flow.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one a flow, while it is handed over")]
pub(crate) enum OtherEnd {
    /// A stream of the session with this place in the parcel.
    Stream(usize, Saved),
    /// A connection to the target.
    Direct(OwnedFd),
}

/// The facts about a flow that the next process needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FlowNote {
    pub(crate) by_peer: bool,
    pub(crate) peer: String,
    pub(crate) target: String,
    pub(crate) program: Option<SocketAddr>,
    pub(crate) rule: Option<String>,
    #[serde(default)]
    pub(crate) origin: Origin,
    pub(crate) age: Duration,
}

impl FlowNote {
    pub(super) fn of(record: &FlowRecord) -> Self {
        Self {
            by_peer: record.by_peer,
            peer: record.peer.to_string(),
            target: record.target.clone(),
            program: record.program,
            rule: record.rule.clone(),
            origin: record.origin.clone(),
            age: record.age(),
        }
    }
}
