//! The packet identifiers of messages at QoS 2 to a client, as they are written to disk.

use std::collections::VecDeque;
use std::sync::Arc;

use super::acknowledged::Mark;
use super::answers::{fault_of, full};
use super::codec::Fault;
use crate::hub::{Hub, SessionName};
use crate::store::{Outbound, Written};

/// Writes identifiers of a session that is on disk. Those of others are in memory alone.
#[derive(Debug, Default)]
pub(super) struct Notes(Option<Box<OnDisk>>);

/// A session that is on disk.
#[derive(Debug)]
struct OnDisk {
    hub: Arc<Hub>,
    session: SessionName,
    /// The steps being written, in order, each with its result.
    writing: VecDeque<(u16, Step, Result<Written, Fault>)>,
}

/// The step of a message that waits for its note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is sent: its identifier is never free for another message then, whenever the broker ends.
    Send,
    /// The client is told to release the identifier: its message is never sent again then.
    Release,
}

impl Notes {
    /// The session is on disk, with the identifiers that it has now.
    pub(super) fn keep(&mut self, hub: &Arc<Hub>, session: SessionName) {
        let (hub, writing) = (Arc::clone(hub), VecDeque::new());
        self.0 = Some(Box::new(OnDisk { hub, session, writing }));
    }

    /// Has a step noted. Returns whether it may be taken at once; otherwise [`Notes::next`] returns it.
    pub(super) fn note(&mut self, (id, step): (u16, Step), outbound: Outbound, has: Option<&Mark>) -> bool {
        let Some(OnDisk { hub, session, writing }) = self.0.as_deref_mut() else { return true };
        hub.note_outbound(session, (id, Some(outbound)), has.map(Mark::has));
        writing.push_back((id, step, hub.written().map_err(fault_of)));
        false
    }

    /// Notes later that an identifier is free. With `has`, the client has its message.
    pub(super) fn free(&self, id: u16, has: Option<&Mark>) {
        if let Some(OnDisk { hub, session, .. }) = self.0.as_deref() {
            hub.note_outbound(session, (id, None), has.map(Mark::has));
        }
    }

    /// The first step whose note is written, or why it cannot be.
    pub(super) fn next(&mut self) -> Option<Result<(u16, Step), Fault>> {
        let writing = &mut self.0.as_deref_mut()?.writing;
        let (_, _, first) = writing.front()?;
        let outcome = match first {
            Ok(written) => written.outcome()?.map_err(full),
            Err(fault) => Err(fault.clone()),
        };
        let (id, step, _) = writing.pop_front()?;
        Some(outcome.map(|()| (id, step)))
    }

    /// Waits until the first is known; for good if there is none. Dropping it loses nothing.
    pub(super) async fn known(&mut self) {
        match self.0.as_deref_mut().and_then(|on_disk| on_disk.writing.front_mut()) {
            // Boxed: it is not there for clients that need no disk.
            Some((_, _, Ok(written))) => Box::pin(written.known()).await,
            Some((_, _, Err(_))) => {}
            None => std::future::pending().await,
        }
    }
}
