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

/// An event for the application. `Closed` is always the last.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete, and the peer's identity is proven.
    Connected,
    /// On every path, three probes went unanswered.
    PeerUnreachable,
    /// The peer answered again.
    PeerReachable,
    /// The peer's packets come from a new address, and it answered a challenge there.
    PeerAddressChanged {
        /// The path whose remote address changed.
        path: PathId,
        /// The peer's old address.
        from: SocketAddr,
        /// The peer's new address.
        to: SocketAddr,
    },
    /// A ticket for the next connection. It is either new from the server, or the connection has closed and the ticket
    /// now holds more about its path. The newest ticket replaces all others.
    Ticket(Ticket),
    /// A path works: it is new, or it answers again.
    PathUp(PathId),
    /// Packets sent on a path are overdue. Their data is sent on another path.
    PathSuspect(PathId),
    /// Three probes of a path went unanswered.
    PathDown(PathId),
    /// A path was closed; these are its final statistics. No further event concerns it.
    PathClosed(Box<PathStats>),
    /// This path is the primary path from now on: data uses it first.
    PrimaryChanged(PathId),
    /// A path that costs something works. It carries data only once
    /// [`Connection::allow_path`](crate::Connection::allow_path) allows it.
    PathCostAsked {
        /// The path that needs consent.
        path: PathId,
        /// The cost of a byte on it, in the application's unit.
        cost: u32,
    },
    /// No path works. Messages wait while every path is probed.
    AllPathsDown,
    /// No path has worked for the idle timeout, so the connection is given up. `Detached` follows if the session
    /// outlives it, otherwise `Closed`.
    OutOfService,
    /// The session is kept without a connection: messages wait, lifetimes run, and the side that connected dials the
    /// peer.
    Detached,
    /// The session goes on after `Detached`, over another connection or because this one works again.
    Reattached {
        /// The peer's old address.
        from: SocketAddr,
        /// The peer's new address.
        to: SocketAddr,
    },
    /// This host has a new address.
    LocalAddressAdded(SocketAddr),
    /// This host has lost an address.
    LocalAddressRemoved(SocketAddr),
    /// The peer announced a new address.
    PeerAddressAdded(SocketAddr),
    /// The peer announced that it has lost an address.
    PeerAddressRemoved(SocketAddr),
    /// The size of a path's packets changed: messages up to this many bytes now travel in one packet.
    MaxUnfragmented(usize),
    /// A figure crossed a threshold that the application set.
    Quality(QualityChange),
    /// The peer has used up a stream's credit, and the application has not read the stream for a second. The peer can
    /// send no more on it. Reported once for each stall. The session reports this as
    /// [`SessionEvent::ReaderStalled`](crate::session::SessionEvent::ReaderStalled); the connection itself does not
    /// emit it.
    ReaderStalled {
        /// The stream that is not read.
        stream: StreamId,
        /// The bytes that wait to be read, plus 32 for each message.
        unread: u64,
    },
    /// A stream's queue has waited for a second because the peer's application does not read the stream. Reported once
    /// for each stall. The session reports this as
    /// [`SessionEvent::SendBlocked`](crate::session::SessionEvent::SendBlocked); the connection itself does not emit
    /// it.
    SendBlocked(StreamId),
    /// The peer began a graceful close. What it sent before is still delivered.
    PeerClosing(Reason),
    /// The peer suspended its end of the session. Messages wait until it comes back.
    PeerSuspended,
    /// The peer resumed its end of the session, perhaps in another process or on another host.
    PeerResumed {
        /// The peer's old address.
        from: SocketAddr,
        /// The peer's new address.
        to: SocketAddr,
    },
    /// The connection is over. This is always the last event.
    Closed(CloseReason),
}

/// An event for the endpoint, which routes datagrams to the connection and provides ids, tickets and dialling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointEvent {
    /// The client has proven itself by a packet under the final keys.
    Proven {
        /// The client's address.
        from: SocketAddr,
    },
    /// A packet that ends in this token means that the peer has lost the connection.
    PeerResetToken(ResetToken),
    /// The client should have a ticket. The endpoint's answer goes to
    /// [`Connection::handle_answer`](crate::Connection::handle_answer). A graceful close waits for it.
    TicketWanted {
        /// The client's key.
        client_key: PublicKey,
        /// The path's rate and round trip for the ticket to remember. All zeros: nothing.
        memory: PathMemory,
    },
    /// Another connection id should be issued. The endpoint's answer goes to
    /// [`Connection::handle_answer`](crate::Connection::handle_answer).
    IdWanted,
    /// One of this connection's ids is no longer in use.
    IdUnused(ConnectionId),
    /// A token from an earlier `PeerResetToken` is no longer valid.
    PeerTokenUnused(ResetToken),
    /// The session should wait for its peer. The endpoint's answer goes to
    /// [`Connection::handle_answer`](crate::Connection::handle_answer).
    WaitWanted {
        /// The peer's key.
        peer: PublicKey,
        /// The bytes that the session holds.
        bytes: u64,
    },
    /// The session no longer waits for its peer.
    WaitOver,
    /// The session was suspended and has left this process. A peer that asks for it is not told that it does not exist.
    Left,
    /// The peer of a waiting session should be dialled. The endpoint's answer goes to
    /// [`Connection::handle_answer`](crate::Connection::handle_answer).
    DialWanted {
        /// The peer's key.
        peer: PublicKey,
    },
    /// The session goes on over another connection with this id. All its earlier ids are void.
    Reattached {
        /// The new connection's id, which the endpoint issued.
        id: ConnectionId,
    },
    /// The connection ended because its peer's key is no longer admitted.
    Revoked,
    /// The connection is over and its ids are free.
    Drained,
}

/// The endpoint's answer to an [`EndpointEvent`].
#[derive(Debug)]
pub enum EndpointAnswer {
    /// Answers [`EndpointEvent::TicketWanted`].
    Ticket(IssuedTicket),
    /// Answers [`EndpointEvent::IdWanted`] with the id and its reset token.
    Id(ConnectionId, ResetToken),
    /// Answers [`EndpointEvent::WaitWanted`] with the current time and whether the session may wait.
    Wait(Time, bool),
    /// Answers [`EndpointEvent::DialWanted`].
    Dial(Box<Dial>),
}
