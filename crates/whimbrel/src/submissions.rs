//! Messages submitted while another task holds the session's lock, so that their sender does not wait while a packet
//! is sealed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use whimbrel_proto::Time;
use whimbrel_proto::session::{Admission, Outgoing, Session};

use crate::lock::lock;

#[derive(Default)]
pub(crate) struct Submissions {
    /// Whether messages wait. Spares all others a lock.
    waiting: AtomicBool,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    messages: Vec<Outgoing>,
    bytes: u64,
    /// The amount that the session has promised to queue. Nothing until [`Submissions::queue`] has asked it, and nothing while
    /// the session is closing or leaving.
    admission: Admission,
}

impl Submissions {
    /// Leaves a message for the holder of the lock, which will queue it. Gives it back if only the session can tell
    /// whether it is accepted.
    pub(crate) fn leave(&self, message: Outgoing) -> Result<(), Outgoing> {
        let mut list = lock(&self.list);
        if !list.admission.take(&message) {
            return Err(message);
        }
        list.bytes += message.payload.len() as u64;
        list.messages.push(message);
        self.waiting.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Queues the submitted messages. `spare` is memory for the list. With `leaving`, no more messages are admitted:
    /// they would not go with the session.
    pub(crate) fn queue(&self, now: Time, session: &mut Session, spare: &mut Vec<Outgoing>, leaving: bool) {
        let mut list = lock(&self.list);
        std::mem::swap(&mut list.messages, spare);
        let bytes = std::mem::take(&mut list.bytes);
        list.admission = if leaving { Admission::default() } else { session.admission(spare.len(), bytes) };
        self.waiting.store(false, Ordering::Release);
        drop(list);
        for message in spare.drain(..) {
            let queued = session.send_admitted(now, message);
            debug_assert!(queued.is_some(), "what was promised is kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use whimbrel_proto::{Service, StreamId, Tag};

    use super::*;
    use crate::Mocket;
    use crate::testing::{QUEUE, pair};

    fn message(payload: impl Into<Bytes>) -> Outgoing {
        Outgoing::new(StreamId(0), Service::ReliableSequenced, payload.into())
    }

    async fn read(far: &Mocket) -> Vec<u8> {
        let mut got = Vec::new();
        while let Ok(message) = far.recv().await {
            got.push(message.payload[0]);
        }
        got
    }

    #[tokio::test]
    async fn while_somebody_drives_nothing_is_taken_that_could_be_refused_later() {
        let (_server, _client, near, far) = pair().await;
        {
            let mut state = near.shared.lock();
            near.shared.open_submissions(&mut state);
            for (what, refused) in [
                ("longer than the peer accepts", message(vec![0; (16 << 20) + 1])),
                ("a stream that is not open", Outgoing { stream: StreamId(77), ..message("x") }),
                ("no tag there can be", Outgoing { tag: Some(Tag(u64::MAX)), ..message("x") }),
                ("maybe one tag too many", Outgoing { tag: Some(Tag(1)), ..message("x") }),
                ("maybe one confirmation too many", Outgoing { confirm: true, ..message("x") }),
            ] {
                assert!(near.shared.submit(refused).is_err(), "{what}");
            }
            for number in 0..QUEUE as u8 {
                near.shared.submit(message(vec![number])).unwrap();
            }
            assert!(near.shared.submit(message("one more than the queue holds")).is_err());
        }
        drop(near);
        assert_eq!(read(&far).await, Vec::from_iter(0..QUEUE as u8));
    }

    #[tokio::test]
    async fn what_was_left_beside_a_queue_that_filled_up_meanwhile_outlives_a_polite_close() {
        let (_server, _client, near, far) = pair().await;
        {
            let mut state = near.shared.lock();
            near.shared.open_submissions(&mut state);
            let now = near.shared.clock.now();
            for number in 0..QUEUE as u8 {
                state.connection.session().send(now, message(vec![number])).unwrap();
                near.shared.submit(message(vec![QUEUE as u8 + number])).unwrap();
            }
            near.shared.open_submissions(&mut state);
            assert!(near.shared.submit(message("the queue is more than full")).is_err());
        }
        near.begin_close(0, "");
        {
            let _state = near.shared.lock();
            assert!(near.shared.submit(message("after the close")).is_err());
        }
        assert_eq!(read(&far).await, Vec::from_iter(0..2 * QUEUE as u8));
    }

    #[tokio::test]
    async fn what_is_left_beside_is_bounded_in_bytes() {
        let (_server, _client, near, _far) = pair().await;
        let mut state = near.shared.lock();
        near.shared.open_submissions(&mut state);
        let payload = Bytes::from(vec![0; 300_000]);
        let taken = (0..QUEUE).filter(|_| near.shared.submit(message(payload.clone())).is_ok()).count();
        assert_eq!(taken as u64, whimbrel_proto::session::MAX_BESIDE_BYTES / 300_000);
    }
}
