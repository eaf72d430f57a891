//! The two ends of a flow, as the flow sees them.

use std::task::{Context, Poll};

use bytes::Bytes;

use crate::protocol::Cap;

/// Why an end cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It was reset. A channel says with which code.
    Reset(u64),
    /// The session is over.
    Lost,
    /// The peer broke the protocol of the proxies.
    Malformed,
}

/// A program's connection.
pub trait Program {
    /// Reads what the program wrote; `None` at the end.
    ///
    /// # Errors
    /// The connection was reset.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>>;

    /// Writes the first of these, as far as there is room, and removes what was written. They are not empty.
    ///
    /// # Errors
    /// The connection was reset, or the program reads no more.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<(), Broken>>;

    /// Ends the direction to the program (FIN). What was written before is delivered.
    fn finish(&mut self);

    /// Ends both directions at once (RST).
    fn reset(&mut self);
}

/// A byte stream between the proxies.
pub trait Channel {
    /// Appends bytes that came from the peer, without waiting for more than there is. Returns false at the end.
    ///
    /// # Errors
    /// The peer reset its direction, or the session is over.
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>>;

    /// Writes as much of the bytes as there is room for, and removes that.
    ///
    /// # Errors
    /// The peer reads no more, or the session is over.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>>;

    /// The bytes that small writes of the program are gathered to, before they are written together. Default: 0, so that each is written at
    /// once.
    fn gathers(&self) -> usize {
        0
    }

    /// Ready once what was gathered has waited long enough. The time begins when this is asked for the first time after a write.
    fn poll_gathered(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Ready once the peer reads no more.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Broken>;

    /// Does what the channel has to do by itself.
    fn poll_upkeep(&mut self, _cx: &mut Context<'_>) {}

    /// From now on, nothing is read beyond a place at which another process can go on. The peer is asked for one.
    fn settle(&mut self) {}

    /// Returns whether that place is reached.
    fn is_settled(&self) -> bool {
        true
    }

    /// Returns whether the peer can be reached now. A flow that waits for it is not idle.
    fn is_reachable(&self) -> bool {
        true
    }

    /// Sets the priority of what is written, among all of the session. None: the default.
    fn set_priority(&mut self, _priority: Option<u8>) {}

    /// Sets the cap of what is written, together with other flows of its group. None: no cap.
    fn set_cap(&mut self, _cap: Option<Cap>) {}

    /// Ends the direction to the peer. What was written before is delivered.
    fn finish(&mut self);

    /// Ends both directions at once with this code.
    fn reset(&mut self, code: u64);
}
