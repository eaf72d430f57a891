//! The format of a segment file.
//!
//! ```text
//! segment: opening (40 bytes)  records
//! record:  kind (1 byte)  mark (3 bytes)  length of the body (4)  synchronised (4)  checksum of the body (4)  checksum (4)  body
//! ```
//!
//! Integers are little-endian, and checksums CRC-32C. The head's checksum begins with the segment's random *salt* and the record's own
//! offset, so nobody can publish bytes that look like a record, and a record at another place is invalid. *Synchronised* says how far the
//! file was on disk
//! when the record was written. A bad record below what a later one says so is damage; one above is a write that was not finished.

mod head;
mod limits;
mod message;
mod opening;
mod reader;
mod summary;

pub(super) use head::{Head, Kind, Salt};
pub(super) use limits::{HEAD, LONGEST_BODY, OPENING, VERSION};
pub use message::Entry;
pub(super) use message::{begin_record, encode_body, parse_message, parse_name};
pub(super) use opening::{Opening, OpeningError};
pub(super) use reader::{Cursor, Put};
pub(super) use summary::{Held, MARK_EVERY, Run, Summary, encode_runs, parse_runs};
