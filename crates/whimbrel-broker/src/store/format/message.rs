//! The record of a message.
//!
//! ```text
//! arrived (8 bytes, ms since 1970)  age (4 bytes, ms)  stamp  message (the rest)
//! ```

use std::time::Duration;

use bytes::Bytes;
use whimbrel_pubsub::message::{Message, Stamp};

use super::head::{Head, Kind, Salt};
use super::limits::HEAD;
use super::reader::{Cursor, Put};

/// A message as it is appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub stamp: Stamp,
    /// When it arrived at this broker, milliseconds since 1970.
    pub arrived_ms: u64,
    /// How old it was then, by the broker's clock at which it entered. It is kept in milliseconds, at most 49 days.
    pub age: Duration,
    /// The message.
    pub message: Message,
}

/// Appends the record of a message. Its head gets its salt and place by [`Head::encode`] later.
pub(in crate::store) fn begin_record(out: &mut Vec<u8>, entry: &Entry) -> Head {
    let from = out.len() + HEAD;
    out.resize(from, 0);
    put_body(out, entry);
    let head = Head::of(Kind::Message, &out[from..]);
    // Without a salt, for whoever finishes it.
    out[from - HEAD..from].copy_from_slice(&head.encode(Salt(0), 0));
    head
}

fn put_body(out: &mut Vec<u8>, entry: &Entry) {
    out.put_u64(entry.arrived_ms);
    out.put_u32(u32::try_from(entry.age.as_millis()).unwrap_or(u32::MAX));
    entry.stamp.encode(out);
    out.extend_from_slice(entry.message.encoded());
}

/// The body of a message's record.
pub(in crate::store) fn encode_body(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    put_body(&mut out, entry);
    out
}

/// Reads the body of a message's record. The message does not share the body's memory.
pub(in crate::store) fn parse_message(body: &[u8]) -> Option<Entry> {
    let mut cursor = Cursor(body);
    let arrived_ms = cursor.u64()?;
    let age = Duration::from_millis(cursor.u32()?.into());
    let (stamp, length) = Stamp::parse(cursor.0)?;
    cursor.take(length)?;
    let message = Message::parse(Bytes::copy_from_slice(cursor.0)).ok()?;
    Some(Entry { stamp, arrived_ms, age, message })
}

/// Reads only the name and the time of arrival.
pub(in crate::store) fn parse_name(body: &[u8]) -> Option<(Stamp, u64)> {
    let mut cursor = Cursor(body);
    let arrived_ms = cursor.u64()?;
    cursor.u32()?;
    Some((Stamp::parse(cursor.0)?.0, arrived_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use whimbrel_pubsub::message::{BrokerId, Draft, Hlc, LAST_SEQUENCE, Origin, PartitionId};

    proptest! {
        #[test]
        fn an_entry_comes_back(
            broker: u64, epoch: u64, sequence in 1..=LAST_SEQUENCE, partition: u8, hlc: u64, arrived_ms: u64, age: u32,
            payload: Vec<u8>, former in 0_usize..50,
        ) {
            let origin = Origin { broker: BrokerId(broker), epoch };
            let stamp = Stamp { origin, sequence, partition: PartitionId(partition), ordinal: 1, published: Hlc(hlc) };
            let message = Draft { topic: "a/b", payload: &payload, ..Draft::default() }.finish().unwrap();
            let entry = Entry { stamp, arrived_ms, age: Duration::from_millis(age.into()), message };
            let mut out = vec![7; former];
            let head = begin_record(&mut out, &entry);
            prop_assert!(out[..former].iter().all(|byte| *byte == 7));
            let body = &out[former + HEAD..];
            prop_assert!(head.has(body));
            prop_assert_eq!(parse_name(body), Some((stamp, arrived_ms)));
            prop_assert_eq!(parse_message(body), Some(entry));
        }

        #[test]
        fn any_bytes_panic_nowhere(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let name = parse_name(&bytes);
            if let Some(entry) = parse_message(&bytes) {
                prop_assert_eq!(name, Some((entry.stamp, entry.arrived_ms)));
            }
        }
    }
}
