//! The result of passing a datagram to an endpoint.

use super::agreeing::Agreeing;
use crate::connection::{Connection, Datagram, Resuming};
use crate::crypto::ResetToken;
use crate::endpoint::handle::Handle;

/// The action that a datagram calls for.
#[derive(Debug)]
pub enum Routed {
    /// Nothing: the datagram was dropped or counted.
    Nothing,
    /// Send the answer that was appended to the buffer back to where the datagram came from.
    Reply,
    /// Pass the datagram to this connection.
    Connection(Handle, Datagram),
    /// The peer repeated its PING: the connection must send its PONG again.
    RepeatedPing(Handle, Datagram),
    /// The peer missed every PONG and began again with another cookie. The connection must send its PONG again, to
    /// where this PING came from.
    SecondPing(Handle, Datagram),
    /// The peer of this connection has lost it: the packet ends in the peer's reset token.
    Reset(Handle, ResetToken),
    /// The peer of this connection wants to continue the session over another one. Pass this to
    /// [`Connection::handle_resume`].
    Resuming(Handle, Box<Resuming>),
    /// A PING whose key agreements are due. Run them and call
    /// [`Endpoint::handle_agreed`](crate::Endpoint::handle_agreed), or call
    /// [`Endpoint::abandon`](crate::Endpoint::abandon). Only
    /// [`Endpoint::handle_datagram_deferring`](crate::Endpoint::handle_datagram_deferring) returns this.
    Agreeing(Box<Agreeing>),
    /// A new connection was accepted.
    Accepted(Handle, Box<Connection>),
}

impl Routed {
    /// Returns the existing connection that the datagram is for, if any.
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

/// An endpoint's counters of handshakes and of datagrams that it dropped, and what is in use of its budgets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// SYNs answered.
    pub syns: u64,
    /// SYNs beyond the limit per second.
    pub syns_dropped: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// PINGs refused: without a valid cookie, replayed, forged, over a limit or not allowed.
    pub refused: u64,
    /// PINGs whose key agreements were run.
    pub agreements: u64,
    /// PINGs with a valid cookie or ticket whose key agreements were not run. An address, a ticket or all clients
    /// together had reached a limit per second, or there were too many connections.
    pub over_budget: u64,
    /// PINGs among those refused with a valid cookie or ticket that did not open.
    pub forged: u64,
    /// PINGs among those refused because a former connection may have delivered the session's early data, or because
    /// too many sessions are remembered.
    pub begun_before: u64,
    /// PINGs among those refused whose key had `max_per_key` connections.
    pub key_full: u64,
    /// PINGs among those refused whose network had its share of the connections.
    pub network_full: u64,
    /// Connections and waiting sessions that ended because their peer's key is no longer allowed.
    pub revoked: u64,
    /// Packets that belong to no connection.
    pub unknown: u64,
    /// Stateless resets sent.
    pub resets: u64,
    /// Datagrams dropped unopened because more from their senders were waiting than from others.
    pub crowded: u64,
    /// Bytes of `memory_budget` in use now.
    pub memory_used: u64,
    /// Bytes of `credit_budget` in use now.
    pub credit_used: u64,
    /// Bytes of `send_budget` in use now.
    pub send_used: u64,
}
