//! First messages of streams that were not accepted yet.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use whimbrel::StreamId;

/// The most streams whose first message waits for them.
const MOST_WAITING: usize = 256;
/// The most bytes of these messages.
const MOST_WAITING_BYTES: usize = 4 << 20;
/// The most accepted streams that are remembered. Of an older one, nothing is on its way any more.
const MOST_ACCEPTED: usize = 4_096;

/// Until a stream is accepted, its messages come as if they belonged to none. This keeps the first until then.
#[derive(Debug, Default)]
pub(super) struct Openings {
    waiting: BTreeMap<StreamId, Bytes>,
    bytes: usize,
    accepted: BTreeSet<StreamId>,
}

/// More streams were opened than may wait.
#[derive(Debug)]
pub(super) struct TooMany;

impl Openings {
    /// A message of a stream came that is not accepted, or not any more.
    pub(super) fn arrived(&mut self, stream: StreamId, payload: Bytes) -> Result<(), TooMany> {
        if self.accepted.contains(&stream) {
            return Ok(());
        }
        // A client says nothing more before it is answered.
        if self.waiting.contains_key(&stream) {
            return Ok(());
        }
        if self.waiting.len() == MOST_WAITING || self.bytes + payload.len() > MOST_WAITING_BYTES {
            return Err(TooMany);
        }
        self.bytes += payload.len();
        self.waiting.insert(stream, payload);
        Ok(())
    }

    /// A stream is accepted. Returns its first message if that came before.
    pub(super) fn accept(&mut self, stream: StreamId) -> Option<Bytes> {
        self.accepted.insert(stream);
        if self.accepted.len() > MOST_ACCEPTED {
            self.accepted.pop_first();
        }
        let first = self.waiting.remove(&stream)?;
        self.bytes -= first.len();
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_waits_for_its_stream() {
        let mut openings = Openings::default();
        openings.arrived(StreamId(4), Bytes::from_static(b"first")).unwrap();
        openings.arrived(StreamId(4), Bytes::from_static(b"second")).unwrap();
        assert_eq!(openings.accept(StreamId(4)).as_deref(), Some(&b"first"[..]));
        openings.arrived(StreamId(4), Bytes::from_static(b"late")).unwrap();
        assert_eq!(openings.accept(StreamId(4)), None);
        let all = (0..1_000).map(|at| openings.arrived(StreamId(8 + at), Bytes::new()));
        assert_eq!(all.filter(Result::is_ok).count(), MOST_WAITING);
    }
    #[test]
    fn regression_first_messages_that_wait_are_bounded_in_bytes() {
        let mut openings = Openings::default();
        let long = Bytes::from(vec![0; MOST_WAITING_BYTES / 2 + 1]);
        openings.arrived(StreamId(4), long.clone()).unwrap();
        assert!(openings.arrived(StreamId(8), long.clone()).is_err());
        assert_eq!(openings.accept(StreamId(4)), Some(long.clone()));
        openings.arrived(StreamId(8), long).unwrap();
    }
}
