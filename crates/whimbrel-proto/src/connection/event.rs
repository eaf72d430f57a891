//! Events that a connection reports to the application and to its endpoint.

use std::net::SocketAddr;

use super::handshake::ticketing::IssuedTicket;
use super::lifecycle::close::CloseReason;
use super::lifecycle::dial::Dial;
use super::observe::quality::QualityChange;
use super::observe::stats::PathStats;
use crate::crypto::{PathMemory, PublicKey, ResetToken};
use crate::wire::close::Reason;
use crate::{ConnectionId, PathId, StreamId, Ticket, Time};

/// What the application hears of a connection. `Closed` is always last.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done: the peer is who it says.
    Connected,
    /// Three probes went unanswered.
    PeerUnreachable,
    /// The peer answered again.
    PeerReachable,
    /// The peer's packets come from another address now, and it answered a challenge there.
    PeerAddressChanged {
        /// The path it happened on.
        path: PathId,
        /// Where it was.
        from: SocketAddr,
        /// Where it is.
        to: SocketAddr,
    },
    /// The server gave a ticket, or closing told more of the path one is for: the next connection may begin with it. The newest
    /// counts.
    Ticket(Ticket),
    /// A path works: it is new, or answered again.
    PathUp(PathId),
    /// What was sent on a path is overdue: it goes another way.
    PathSuspect(PathId),
    /// Three probes of a path went unanswered.
    PathDown(PathId),
    /// A path is no more; its last figures. Nothing more is said of it.
    PathClosed(Box<PathStats>),
    /// Data goes on this path first from now on.
    PrimaryChanged(PathId),
    /// A path works that costs something, and carries data only once [`Connection::allow_path`](crate::Connection::allow_path) says so.
    PathCostAsked {
        /// Which.
        path: PathId,
        /// What it costs.
        cost: u32,
    },
    /// No path works: messages wait, and every path is probed.
    AllPathsDown,
    /// No path has worked for so long that the connection is given up; `Detached` follows if the session outlives it, else `Closed`.
    OutOfService,
    /// The session is kept without a connection: messages wait, lifetimes run, and the side that connected dials.
    Detached,
    /// The session goes on, over another connection or because this one works again; `Detached` came before it.
    Reattached {
        /// Where the peer was.
        from: SocketAddr,
        /// Where it is.
        to: SocketAddr,
    },
    /// This host has another address.
    LocalAddressAdded(SocketAddr),
    /// This host has one address less.
    LocalAddressRemoved(SocketAddr),
    /// The peer says it has another address.
    PeerAddressAdded(SocketAddr),
    /// The peer says it has one address less.
    PeerAddressRemoved(SocketAddr),
    /// The largest packet of a path changed: messages up to this many bytes travel unfragmented.
    MaxUnfragmented(usize),
    /// A figure crossed a threshold that was set.
    Quality(QualityChange),
    /// The peer has used up a stream's credit, and nobody has read it for a second: it can send no more there. Said once each time. As
    /// [`crate::session::SessionEvent::ReaderStalled`], which the session says.
    ReaderStalled {
        /// Which.
        stream: StreamId,
        /// Bytes that wait to be read, and 32 for each message.
        unread: u64,
    },
    /// What is queued on a stream has waited for a second because the peer's application does not read it. Said once each time. As
    /// [`crate::session::SessionEvent::SendBlocked`], which the session says.
    SendBlocked(StreamId),
    /// The peer began a polite close: what it sent before is still delivered.
    PeerClosing(Reason),
    /// The peer suspended its end: messages wait until it comes back.
    PeerSuspended,
    /// The peer's end goes on, perhaps in another process or on another host.
    PeerResumed {
        /// Where it was.
        from: SocketAddr,
        /// Where it is.
        to: SocketAddr,
    },
    /// Over.
    Closed(CloseReason),
}

/// What the endpoint needs to know to find the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointEvent {
    /// The client has proven itself by a packet from there.
    Proven {
        /// Where its path leads.
        from: SocketAddr,
    },
    /// Packets that end in this token mean the peer has lost the connection.
    PeerResetToken(ResetToken),
    /// The client should have a ticket: hand the endpoint's answer to [`Connection::handle_answer`](crate::Connection::handle_answer). A close waits for it.
    TicketWanted {
        /// For whom.
        client_key: PublicKey,
        /// What it should remember; zeros: nothing.
        memory: PathMemory,
    },
    /// An id should be issued: hand the endpoint's answer to [`Connection::handle_answer`](crate::Connection::handle_answer).
    IdWanted,
    /// One of this connection's ids is no longer in use.
    IdUnused(ConnectionId),
    /// A token told before means nothing any more.
    PeerTokenUnused(ResetToken),
    /// The session is to wait for its peer: hand the endpoint's answer to [`Connection::handle_answer`](crate::Connection::handle_answer).
    WaitWanted {
        /// Who.
        peer: PublicKey,
        /// What the session holds.
        bytes: u64,
    },
    /// The session waits no longer, and goes on as it was.
    WaitOver,
    /// The session left by being suspended: who asks for it is not told that there is none.
    Left,
    /// The peer of a session that waits is to be dialled: hand the endpoint's answer to [`Connection::handle_answer`](crate::Connection::handle_answer).
    DialWanted {
        /// Whom.
        peer: PublicKey,
    },
    /// The session goes on over another connection, addressed by this id; no other id of before counts any more.
    Reattached {
        /// Issued by the endpoint when it was asked.
        id: ConnectionId,
    },
    /// It ended because its peer's key is not let in any more.
    Revoked,
    /// The connection is over and its ids are free.
    Drained,
}

/// What an endpoint answers to some of the events it is told.
#[derive(Debug)]
pub enum EndpointAnswer {
    /// To [`EndpointEvent::TicketWanted`].
    Ticket(IssuedTicket),
    /// To [`EndpointEvent::IdWanted`].
    Id(ConnectionId, ResetToken),
    /// To [`EndpointEvent::WaitWanted`]: whether the session may wait, from when.
    Wait(Time, bool),
    /// To [`EndpointEvent::DialWanted`].
    Dial(Box<Dial>),
}
