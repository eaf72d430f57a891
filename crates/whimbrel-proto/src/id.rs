//! Identifiers, each with a type of its own so that they cannot be confused.

use std::fmt;

/// One end of a connection. The client is the end that sent SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The end that opened the connection.
    Client,
    /// The end that accepted it.
    Server,
}

impl Side {
    /// Returns the low bit of the stream and path ids that this side opens: 0 for the client, 1 for the server.
    pub const fn bit(self) -> u64 {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }

    /// Returns the other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Eight bytes in the clear at the head of every packet, by which the receiver finds the connection and path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// The length on the wire, in bytes.
    pub const LEN: usize = 8;

    /// Returns the bytes of the id, as on the wire.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Creates an id from its bytes on the wire.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(u64::from_be_bytes(bytes))
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A path within a connection: 32 bits, never reused. The low bit says which side opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(pub u32);

impl PathId {
    /// The path on which the handshake ran.
    pub const FIRST: Self = Self(0);
}

/// A stream within a session: a domain of order. Ids are never reused. The low bit says which side opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId(pub u64);

impl StreamId {
    /// Returns the side that opened this stream.
    pub const fn opener(self) -> Side {
        if self.0 & 1 == 0 { Side::Client } else { Side::Server }
    }

    /// Returns the `index`th stream that `side` opens.
    pub const fn nth(side: Side, index: u64) -> Self {
        Self(index << 1 | side.bit())
    }

    /// Returns the number of streams that its opener opened before it.
    pub const fn index(self) -> u64 {
        self.0 >> 1
    }
}

/// A number that the application gives messages, so that it can cancel, replace, limit or retune them as a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Identifies one `send` call of a mocket; ids count up from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// The service of a message (Mockets section 3.2), chosen message by message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Service {
    /// Retransmitted until it arrives; delivered in the order sent.
    #[default]
    ReliableSequenced,
    /// Retransmitted until it arrives; delivered as soon as it is complete.
    ReliableUnsequenced,
    /// Sent once (repeats aside); late messages are skipped.
    UnreliableSequenced,
    /// Sent once (repeats aside); delivered as soon as it is complete.
    UnreliableUnsequenced,
}

impl Service {
    /// All four services, in the order of [`Service::index`].
    pub const ALL: [Self; 4] = [
        Self::ReliableSequenced,
        Self::ReliableUnsequenced,
        Self::UnreliableSequenced,
        Self::UnreliableUnsequenced,
    ];

    /// Creates a service from its two properties.
    pub const fn new(reliable: bool, sequenced: bool) -> Self {
        match (reliable, sequenced) {
            (true, true) => Self::ReliableSequenced,
            (true, false) => Self::ReliableUnsequenced,
            (false, true) => Self::UnreliableSequenced,
            (false, false) => Self::UnreliableUnsequenced,
        }
    }

    /// Returns whether lost data is sent again.
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::ReliableSequenced | Self::ReliableUnsequenced)
    }

    /// Returns whether messages are delivered in the order sent.
    pub const fn is_sequenced(self) -> bool {
        matches!(self, Self::ReliableSequenced | Self::UnreliableSequenced)
    }

    /// Returns the short name: `rs`, `ru`, `us` or `uu`.
    pub const fn short(self) -> &'static str {
        match self {
            Self::ReliableSequenced => "rs",
            Self::ReliableUnsequenced => "ru",
            Self::UnreliableSequenced => "us",
            Self::UnreliableUnsequenced => "uu",
        }
    }

    /// A number from 0 to 3, for tables.
    pub const fn index(self) -> usize {
        match self {
            Self::ReliableSequenced => 0,
            Self::ReliableUnsequenced => 1,
            Self::UnreliableSequenced => 2,
            Self::UnreliableUnsequenced => 3,
        }
    }
}
