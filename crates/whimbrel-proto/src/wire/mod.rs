//! The wire format: one file per block, with parser, writer and round-trip test side by side.
//!
//! Integers are big-endian; most are variable-length integers (RFC 9000 section 16). Every parser accepts hostile
//! bytes: it returns [`Malformed`], and never allocates memory in proportion to a length field's claim.

mod buffer;
pub mod close;
pub mod credit;
pub mod data;
pub mod packet;
pub mod sack;
pub mod skip;
pub mod stream_end;
pub mod taken;
mod varint;

pub use buffer::{Reader, Writer};
pub use varint::{VARINT_MAX, varint_len};

/// An error for bytes that do not follow the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

/// Block types. 0 to 12 are MMSP's (thesis Table 3.1) with the same meaning. An unknown type from 128 on is skipped
/// by its length. An unknown type below 128 closes the connection with an error.
pub mod block {
    #![allow(missing_docs, reason = "docs/protocol.md is the reference; the names are the documentation")]
    pub const DATA: u8 = 0;
    pub const SACK: u8 = 1;
    pub const SYN: u8 = 2;
    pub const SYN_ACK: u8 = 3;
    pub const PING: u8 = 4;
    pub const PONG: u8 = 5;
    pub const FIN: u8 = 6;
    pub const FIN_ACK: u8 = 7;
    pub const FIN_DONE: u8 = 8;
    pub const RST: u8 = 9;
    pub const ERROR: u8 = 10;
    pub const PROBE: u8 = 11;
    pub const PROBE_ACK: u8 = 12;
    pub const PADDING: u8 = 13;
    pub const SKIP: u8 = 14;
    pub const SKIP_ACK: u8 = 15;
    pub const MAX_STREAM_DATA: u8 = 17;
    pub const MAX_STREAMS: u8 = 18;
    pub const RESET: u8 = 19;
    pub const STOP: u8 = 20;
    pub const NEW_CID: u8 = 21;
    pub const CLOSE_PATH: u8 = 22;
    pub const TICKET: u8 = 23;
    pub const TAKEN: u8 = 24;
    pub const KEEP_ALIVE: u8 = 25;
    pub const END: u8 = 26;
    pub const ADD_ADDRESS: u8 = 32;
    pub const DELETE_ADDRESS: u8 = 33;
    pub const SET_PRIMARY: u8 = 34;
    pub const SUSPEND: u8 = 35;
    pub const SUSPEND_ACK: u8 = 36;
    pub const SOURCE: u8 = 37;
    pub const REPAIR: u8 = 38;
    pub const FIRST_SKIPPABLE: u8 = 128;

    /// The name of a block type, for people.
    pub(crate) fn name(kind: u8) -> &'static str {
        match kind {
            DATA => "DATA",
            SACK => "SACK",
            SYN => "SYN",
            SYN_ACK => "SYN_ACK",
            PING => "PING",
            PONG => "PONG",
            FIN => "FIN",
            FIN_ACK => "FIN_ACK",
            FIN_DONE => "FIN_DONE",
            RST => "RST",
            ERROR => "ERROR",
            PROBE => "PROBE",
            PROBE_ACK => "PROBE_ACK",
            PADDING => "PADDING",
            SKIP => "SKIP",
            SKIP_ACK => "SKIP_ACK",
            MAX_STREAM_DATA => "MAX_STREAM_DATA",
            MAX_STREAMS => "MAX_STREAMS",
            RESET => "RESET",
            STOP => "STOP",
            NEW_CID => "NEW_CID",
            CLOSE_PATH => "CLOSE_PATH",
            TICKET => "TICKET",
            TAKEN => "TAKEN",
            KEEP_ALIVE => "KEEP_ALIVE",
            END => "END",
            ADD_ADDRESS => "ADD_ADDRESS",
            DELETE_ADDRESS => "DELETE_ADDRESS",
            SET_PRIMARY => "SET_PRIMARY",
            SUSPEND => "SUSPEND",
            SUSPEND_ACK => "SUSPEND_ACK",
            SOURCE => "SOURCE",
            REPAIR => "REPAIR",
            _ => "unknown",
        }
    }
}
