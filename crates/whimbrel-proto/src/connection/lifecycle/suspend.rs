//! Suspending: a session leaves its connection. At this end it becomes bytes; at the other it waits (Mockets 5.1).

use std::time::Duration;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::close::{CloseReason, Ending};
use super::suspended::Suspended;
use crate::connection::event::{EndpointEvent, Event};
use crate::connection::packet::notes::Notes;
use crate::connection::packet::sent_block::SentBlock;
use crate::connection::paths::path_set::Main;
use crate::connection::state::Connection;
use crate::crypto::{Claim, PublicKey};
use crate::expected::Expected;
use crate::recovery::Fate;
use crate::session::Session;
use crate::wire::{Malformed, Reader, Writer, block};
use crate::{Cause, PeerMisbehaved, Side, Time};

/// How often SUSPEND_ACK is sent again to a peer that goes on asking.
const REPEATS: u8 = 32;

/// How the session is treated before it becomes bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuspendMode {
    /// First delivers what was sent, as a graceful close does, for as long as the close timeout. Then as `Snapshot`.
    Flush,
    /// Suspends at once. What is in flight goes with the session.
    Snapshot,
}

impl SuspendMode {
    const fn words(self) -> &'static str {
        match self {
            Self::Flush => "what was sent is delivered first",
            Self::Snapshot => "at once",
        }
    }
}

/// Why a session cannot be suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SuspendError {
    /// The handshake is not complete.
    #[error("there is no connection yet: suspend once it is established")]
    NotEstablished,
    /// The session is closing, or being suspended already.
    #[error("the session is already closing or being suspended")]
    Closing,
    /// The client gave the session no id, by which it could be resumed.
    #[error("the peer's version is too old to resume sessions")]
    NoSession,
}

impl Connection {
    /// Suspends the session. [`Event::Closed`] with [`CloseReason::Suspended`] reports that
    /// [`Connection::take_suspended`] has it. `heir` is another key that may resume the session.
    ///
    /// The wait for the peer's answer ends with the close timeout. A peer that has not answered by then finds out by
    /// itself, and so does one that is suspended or out of reach already.
    ///
    /// # Errors
    /// [`SuspendError`] if the session cannot be suspended. Nothing was changed then.
    pub fn suspend(
        &mut self,
        now: Time,
        mode: SuspendMode,
        heir: Option<PublicKey>,
    ) -> Result<(), SuspendError> {
        if self.ending.is_waiting() {
            // The peer cannot be told.
            self.succession.set_own_heir(heir);
            self.finish_suspend(now, None);
            return Ok(());
        }
        if !self.is_established() || !self.peer.confirmed {
            return Err(SuspendError::NotEstablished);
        }
        if !self.ending.is_open() {
            return Err(SuspendError::Closing);
        }
        if self.succession.attachment.session().is_none() {
            return Err(SuspendError::NoSession);
        }
        if let Some(observer) = &mut self.observer {
            observer.on_suspending(now, mode.words(), heir.as_ref());
        }
        let block = Some(suspend(heir.as_ref()));
        self.succession.set_own_heir(heir);
        self.ending = Ending::Suspending { give_up: now + self.config.close_timeout, block, answered: false };
        if mode == SuspendMode::Snapshot {
            self.send_suspend();
        } else {
            self.session.begin_close();
        }
        Ok(())
    }

    /// Ends the wait for the peer's answer to a suspension, as the close timeout would. Does nothing otherwise.
    pub fn suspend_unanswered(&mut self, now: Time) {
        if matches!(self.ending, Ending::Suspending { .. }) {
            self.finish_suspend(now, None);
        }
    }

    /// Continues a suspension that the end of the previous connection interrupted.
    pub(in crate::connection) fn suspend_again(&mut self, before: &mut Self) {
        let Ending::Suspending { give_up, block, .. } = &mut before.ending else { return };
        let was_sent = block.is_none();
        self.succession.set_own_heir(before.succession.take_own_heir());
        let block = Some(suspend(self.succession.own_heir()));
        self.ending = Ending::Suspending { give_up: *give_up, block, answered: false };
        if was_sent {
            self.send_suspend();
        }
    }

    /// Queues SUSPEND, since the session is drained or need not be.
    pub(in crate::connection) fn send_suspend(&mut self) {
        if let Ending::Suspending { block, .. } = &mut self.ending
            && let Some(block) = block.take()
        {
            self.control.notice(block);
        }
    }

    /// Returns the suspended session, once. `own_key` is this end's key, and `wall` the wall-clock time at `now`, since
    /// the epoch. Lifetimes run on from the suspension, however late this is called.
    pub fn take_suspended(&mut self, now: Time, own_key: PublicKey, wall: Duration) -> Option<Suspended> {
        let (left_at, suspended) = self.succession.take_suspended()?;
        let at = wall.saturating_sub(now.since(left_at));
        Some(Suspended { own_key, at, ..suspended })
    }

    pub(in crate::connection) fn on_suspend(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let heir = read_suspend(reader)?;
        if let Some(observer) = &mut self.observer {
            observer.on_peer_suspends(now, heir.as_ref());
        }
        let Some(peer) = self.peer.key.expected("the key of the peer that suspends") else { return Ok(()) };
        match &mut self.ending {
            Ending::Open => {
                self.succession.attachment.set_heir(heir);
                let bytes = self.session.kept_bytes();
                self.endpoint_events.push_back(EndpointEvent::WaitWanted { peer, bytes });
            }
            // Both ends suspend at once. Neither waits yet, and the one that comes back first waits for the other.
            Ending::Suspending { answered, .. } => {
                self.succession.attachment.set_heir(heir);
                if !std::mem::replace(answered, true) {
                    self.control.notice(suspend_ack(Duration::ZERO));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles the endpoint's answer to [`EndpointEvent::WaitWanted`].
    pub(in crate::connection) fn wait_for_peer(&mut self, now: Time, granted: bool) {
        // Where this side dials, what waits to be sent need not be covered by the budgets.
        let dials = self.session.side() == Side::Client && matches!(self.ending, Ending::Detached { .. });
        let fits = granted && (dials || self.session.begin_wait());
        if let Some(observer) = &mut self.observer {
            observer.on_wait(now, fits, wait_words(granted, fits));
        }
        let granted = fits;
        if matches!(self.ending, Ending::Detached { .. }) && !granted {
            self.finish(now, CloseReason::TimedOut, None);
        }
        if self.ending != Ending::Open {
            return;
        }
        if !granted {
            let reason =
                crate::wire::close::Reason::new(0, "as many sessions of yours are suspended as may be");
            self.finish(now, CloseReason::WaitRefused, Some((Cause::LimitExceeded, reason)));
            return;
        }
        self.prepare_suspend_ack(now, true);
        self.abandon_all(now);
        self.coding.trim();
        self.ending = Ending::Waiting { until: now + self.config.wait_time };
        self.events.push_back(Event::PeerSuspended);
    }

    /// Prepares the last packet of this connection, which is repeated while the peer asks. `with_sack`: it also
    /// acknowledges what has arrived, which is no longer allowed after a snapshot.
    fn prepare_suspend_ack(&mut self, now: Time, with_sack: bool) {
        let wait = self.config.wait_time;
        let mut sack = Vec::new();
        if with_sack {
            let path = &mut self.paths[Main];
            let id = path.id().0;
            let mut out = Writer::new(&mut sack, 400);
            // Verdicts on late messages come before the SACK. If they do not fit, nothing is acknowledged.
            if self.session.fill_verdicts(&mut out, &mut Vec::new()) {
                path.received.write_sack(now, id, true, &mut out);
            }
        }
        self.prepare_last(now, |writer| {
            writer.bytes(&sack);
            writer.bytes(&suspend_ack(wait));
            writer.bytes(&[block::PADDING, 0, 0]);
        });
        self.farewell.left = REPEATS;
    }

    pub(in crate::connection) fn on_suspend_ack(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let wait = Duration::from_millis(reader.varint()?);
        if matches!(self.ending, Ending::Suspending { block: None, .. }) {
            self.finish_suspend(now, Some(wait));
        }
        Ok(())
    }

    /// Turns the session into bytes and ends the connection. Nothing is acknowledged after this.
    pub(in crate::connection) fn finish_suspend(&mut self, now: Time, wait: Option<Duration>) {
        let (Some(claim), Some(peer_key)) = (self.claim(), self.peer.key) else { return };
        self.endpoint_events.push_back(EndpointEvent::Left);
        self.abandon_all(now);
        let snapshot = self.session.snapshot(now);
        if let Some(observer) = &mut self.observer {
            observer.on_suspended(now, snapshot.len(), wait);
        }
        self.session = Session::new(self.side, self.config.session).drawing_on(&self.budgets);
        let suspended = Suspended {
            claim,
            own_key: peer_key,
            peer_key,
            remote: self.remote(),
            at: Duration::ZERO,
            peer_waits: wait,
            heir: self.succession.take_own_heir(),
            app_data: Bytes::new(),
            snapshot: Bytes::from_owner(Zeroizing::new(snapshot)),
        };
        self.succession.keep(now, suspended);
        self.prepare_suspend_ack(now, false);
        self.finish(now, CloseReason::Suspended, None);
        self.farewell.due = false;
    }

    /// Sets the session's id, which is chosen when the session begins.
    pub(crate) fn name_session(&mut self, session: [u8; 16]) {
        self.succession.attachment.name(Some(session));
    }

    /// Returns the claim that proves that this is the session's other end.
    pub(in crate::connection) fn claim(&self) -> Option<Claim> {
        self.succession.attachment.claim(|| Some(self.keys.as_ref()?.keys().resumption(self.side)))
    }

    /// Counts everything in flight as lost, on all paths: nothing more will be heard of it.
    pub(in crate::connection) fn abandon_all(&mut self, now: Time) {
        for at in self.paths.all() {
            let old = self.paths[at].start_over(now, self.config.congestion);
            let (session, control) = (&mut self.session, &mut self.control);
            let mut notes = Notes::default();
            old.abandon(|item: &SentBlock| Self::settle(now, Fate::Lost, item, session, control, &mut notes));
        }
    }
}

const fn wait_words(granted: bool, fits: bool) -> &'static str {
    match (granted, fits) {
        (false, _) => {
            "the limits of waiting sessions are reached: max_waiting, max_waiting_bytes, max_connections"
        }
        (true, false) => "memory_budget has no room for what waits to be sent",
        (true, true) => "there is room",
    }
}

pub(in crate::connection) fn suspend(heir: Option<&PublicKey>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes, 64);
    out.u8(block::SUSPEND);
    out.u8(if heir.is_some() { 32 } else { 0 });
    out.bytes(heir.map_or(&[], |heir| &heir.as_bytes()[..]));
    bytes
}

/// Reads SUSPEND: the heir, if one is named.
pub(in crate::connection) fn read_suspend(reader: &mut Reader) -> Result<Option<PublicKey>, PeerMisbehaved> {
    match reader.u8()? {
        0 => Ok(None),
        32 => {
            let key = PublicKey::new(reader.array()?);
            Ok(Some(key.map_err(|_| Malformed("SUSPEND: a key that is none"))?))
        }
        _ => Err(Malformed("SUSPEND: neither a key nor none").into()),
    }
}

pub(in crate::connection) fn suspend_ack(wait: Duration) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes, 16);
    out.u8(block::SUSPEND_ACK);
    out.varint((wait.as_millis() as u64).min(crate::wire::VARINT_MAX));
    bytes
}
