//! Messages over a link, which belong to no stream.

use std::time::Duration;

use bytes::Bytes;
use whimbrel::{Outcome, Sender, Service, Tag};

use super::link::Link;
use super::tcp::TcpLink;
use crate::protocol::{Cap, Manner};

/// How long a datagram may wait to be sent. Later ones are of more use.
const LIFETIME: Duration = Duration::from_secs(1);
/// The same if the service is reliable.
const RELIABLE_LIFETIME: Duration = Duration::from_secs(30);

/// Sends messages of one kind.
#[derive(Debug)]
pub(crate) enum Messages {
    Whimbrel(Sender),
    /// With a lifetime if they may be lost.
    Tcp(TcpLink, Option<Duration>),
}

impl Messages {
    pub(super) fn sure(link: &Link) -> Self {
        match link {
            Link::Whimbrel(mocket) => Self::Whimbrel(mocket.sender().unsequenced().build()),
            Link::Tcp(link) => Self::Tcp(link.clone(), None),
        }
    }

    pub(super) fn datagrams(link: &Link, manner: Manner) -> Self {
        let service = manner.service.unwrap_or(Service::UnreliableUnsequenced);
        let default = if service.is_reliable() { RELIABLE_LIFETIME } else { LIFETIME };
        let lifetime = manner.lifetime.unwrap_or(default);
        let mocket = match link {
            Link::Whimbrel(mocket) => mocket,
            Link::Tcp(link) => return Self::Tcp(link.clone(), Some(lifetime)),
        };
        let mut sender = mocket.sender().service(service).lifetime(lifetime);
        if let Some(priority) = manner.priority {
            sender = sender.priority(priority);
        }
        Self::Whimbrel(match manner.cap {
            Some(cap) => sender.tag(tag(cap)).build(),
            None => sender.build(),
        })
    }

    /// Sends a message, unless too much waits already.
    pub(crate) fn try_send(&self, message: Bytes) {
        match self {
            // What finds no room is lost, as a router would lose it.
            Self::Whimbrel(sender) => drop(sender.try_send(message)),
            Self::Tcp(link, Some(lifetime)) => drop(link.send(message, *lifetime)),
            Self::Tcp(link, None) => drop(link.send_surely(message)),
        }
    }

    /// Sends a message, and waits until messages that are sent from now on arrive after it. Returns whether they do.
    pub(crate) async fn deliver(&self, message: Bytes) -> bool {
        match self {
            Self::Whimbrel(sender) => match sender.send_tracked(message).await {
                Ok(delivery) => delivery.outcome().await == Outcome::Delivered,
                Err(_) => false,
            },
            // What goes over one connection stays in order.
            Self::Tcp(link, _) => link.send_surely(message),
        }
    }
}

/// The tag of a group: the transport has numbers of 62 bits.
pub(super) fn tag(cap: Cap) -> Tag {
    Tag(cap.group >> 2)
}
