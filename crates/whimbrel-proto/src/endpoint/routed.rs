//! The result of handing an endpoint a datagram.

use super::agreeing::Agreeing;
use crate::connection::{Connection, Datagram, Resuming};
use crate::crypto::ResetToken;
use crate::endpoint::handle::Handle;

/// What a datagram led to.
pub enum Routed {
    /// Nothing further: dropped, and counted.
    Nothing,
    /// An answer was appended to the buffer, to be sent back to where the datagram came from.
    Reply,
    /// It is for this connection.
    Connection(Handle, Datagram),
    /// The peer repeated PING: the connection's PONG is due again.
    RepeatedPing(Handle, Datagram),
    /// The peer missed every PONG and began again with another cookie: the connection's PONG is due again, to where that came from.
    SecondPing(Handle, Datagram),
    /// The peer of this connection has lost it, as its token says.
    Reset(Handle, ResetToken),
    /// The peer of this connection wants its session to go on over another: for [`Connection::handle_resume`].
    Resuming(Handle, Box<Resuming>),
    /// A PING whose key agreements are due; then [`Endpoint::handle_agreed`](crate::Endpoint::handle_agreed), or [`Endpoint::abandon`](crate::Endpoint::abandon). Only from
    /// [`Endpoint::handle_datagram_deferring`](crate::Endpoint::handle_datagram_deferring).
    Agreeing(Box<Agreeing>),
    /// Somebody new was let in.
    Accepted(Handle, Box<Connection>),
}

impl Routed {
    /// The connection that it is for, if that is known already.
    pub fn handle(&self) -> Option<Handle> {
        match self {
            Self::Nothing | Self::Reply | Self::Agreeing(_) | Self::Accepted(..) => None,
            Self::Connection(handle, _)
            | Self::RepeatedPing(handle, _)
            | Self::SecondPing(handle, _)
            | Self::Reset(handle, _)
            | Self::Resuming(handle, _) => Some(*handle),
        }
    }
}

/// Datagrams that led to nothing, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// SYNs answered.
    pub syns: u64,
    /// SYNs beyond what is answered in a second.
    pub syns_dropped: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// PINGs refused: no valid cookie, replayed, forged, over a limit, not allowed.
    pub refused: u64,
    /// PINGs whose key agreements were made.
    pub agreements: u64,
    /// PINGs with a good cookie or ticket for which none were made, since an address, a ticket or everybody together had had its share of
    /// the second, or there were too many connections.
    pub over_budget: u64,
    /// Of those refused, PINGs with a good cookie or ticket that did not open.
    pub forged: u64,
    /// Of those refused, PINGs for a session whose early data may have been delivered by a connection that is over, or of more sessions than are
    /// remembered.
    pub begun_before: u64,
    /// PINGs among those refused whose key had `max_per_key` connections.
    pub key_full: u64,
    /// PINGs among those refused whose network had its share of the connections.
    pub network_full: u64,
    /// Connections and waiting sessions that ended because their peer's key is not let in any more.
    pub revoked: u64,
    /// Packets for nobody.
    pub unknown: u64,
    /// Stateless resets sent.
    pub resets: u64,
    /// Datagrams dropped before they were opened, since more waited from their senders than from others.
    pub crowded: u64,
}
