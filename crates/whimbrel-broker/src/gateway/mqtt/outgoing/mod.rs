//! Messages to a client.

use std::collections::VecDeque;
use std::sync::Arc;

use whimbrel_pubsub::coverage::Delivery;
use whimbrel_pubsub::message::PublisherId;

use super::codec::{Acknowledged, Fault, Out, Qos, Reason};
use super::in_flight::{Due, InFlight, Received, Resume, Sent};
use super::message::qos_of;
use super::notes::{Notes, Step};
use super::options::Options;
use crate::hub::{Hub, SessionName};
use crate::quota::Quota;
use crate::store::Outbound;

/// The most messages that a client may not have acknowledged. A client of MQTT 5 may ask for fewer.
pub(super) const MOST_IN_FLIGHT: usize = 256;
/// The most bytes of them, the last one not counted.
pub(super) const MOST_IN_FLIGHT_BYTES: usize = 1 << 20;
/// Messages are read while fewer bytes wait for the client's socket.
pub(super) const ROOM: usize = 64 << 10;

/// The packets and messages on their way to a client.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) out: Out,
    pub(super) notes: Notes,
    in_flight: InFlight,
    /// Messages that are sent as soon as the client has room, in order.
    ready: VecDeque<u16>,
    window: usize,
    /// The most bytes that the client may have waiting, if its quota is less than the limits.
    queued: usize,
    /// Messages of this publisher are the client's own.
    own: PublisherId,
}

impl Outgoing {
    pub(super) fn new(out: Out, window: usize, own: PublisherId, quota: &Quota) -> Self {
        let (window, queued) = (window.min(MOST_IN_FLIGHT), quota.queued(usize::MAX));
        let (notes, in_flight, ready) = (Notes::default(), InFlight::default(), VecDeque::new());
        Self { out, notes, in_flight, ready, window, queued, own }
    }

    /// Messages are read while fewer bytes wait for the client's socket.
    fn room(&self) -> usize {
        self.queued.clamp(1, ROOM)
    }

    /// Whether the client has room for another message that is sent so.
    pub(super) fn has_room(&self, options: &Options) -> bool {
        self.out.len() < self.room() && (options.qos == Qos::AtMostOnce || self.has_window())
    }

    /// Whether another message may be sent that has to be acknowledged.
    fn has_window(&self) -> bool {
        self.in_flight.len() < self.window
            && self.in_flight.bytes() < self.queued.clamp(1, MOST_IN_FLIGHT_BYTES)
    }

    /// Sends again what was not acknowledged in an earlier connection, as far as the client has room. The rest waits for its turn.
    pub(super) fn resume(&mut self, in_flight: InFlight, wall_ms: u64) {
        self.in_flight = in_flight;
        for (id, resume) in self.in_flight.to_resume() {
            match resume {
                Resume::Send => self.ready.push_back(id),
                Resume::Begin => self.begin(id),
                Resume::Release => self.release(id, None),
                Resume::ReleaseAgain => self.write_release(id, Reason::SUCCESS),
            }
        }
        self.send_ready(wall_ms);
    }

    /// The identifiers at QoS 2, for a session that is about to be kept on disk.
    pub(super) fn outbound(&self) -> Vec<(u16, Outbound)> {
        self.in_flight.outbound()
    }

    /// The session is on disk now, with these identifiers.
    pub(super) fn keep(&mut self, hub: &Arc<Hub>, session: SessionName) {
        self.notes.keep(hub, session);
    }

    /// Returns the messages that the client did not acknowledge.
    pub(super) fn into_in_flight(mut self) -> InFlight {
        self.in_flight.park();
        self.in_flight
    }

    /// The client has a message at QoS 1.
    ///
    /// # Errors
    /// It is at QoS 2.
    pub(super) fn acknowledged(&mut self, id: u16) -> Result<(), Fault> {
        self.in_flight.acknowledged(id).map(drop)
    }

    /// The client has a message at QoS 2, or refuses it.
    ///
    /// # Errors
    /// It is at QoS 1.
    pub(super) fn received(&mut self, id: u16, reason: Reason) -> Result<(), Fault> {
        match self.in_flight.received(id)? {
            Received::Nothing if !reason.is_refusal() => self.write_release(id, Reason::ID_NOT_FOUND),
            Received::Released if !reason.is_refusal() => self.write_release(id, Reason::SUCCESS),
            Received::Nothing | Received::Released | Received::Again => {}
            // It is not sent again, and its identifier is free.
            Received::Message(due) if reason.is_refusal() => {
                self.in_flight.remove(id);
                self.notes.free(id, due.mark());
                due.settle();
            }
            Received::Message(due) => {
                self.release(id, Some(&due));
                due.settle();
            }
        }
        Ok(())
    }

    /// The client has released an identifier.
    ///
    /// # Errors
    /// It was not told to.
    pub(super) fn completed(&mut self, id: u16) -> Result<(), Fault> {
        if self.in_flight.completed(id)? {
            self.notes.free(id, None);
        }
        Ok(())
    }

    /// Goes on with what was written to disk, and with what the client has room for.
    ///
    /// # Errors
    /// The disk takes nothing.
    pub(super) fn go_on(&mut self, hub: &Hub) -> Result<(), Fault> {
        while let Some(noted) = self.notes.next() {
            match noted? {
                (id, Step::Send) => self.ready.push_back(id),
                (id, Step::Release) => self.tell_to_release(id),
            }
        }
        if !self.ready.is_empty() {
            self.send_ready(hub.clock().now().wall_ms);
        }
        Ok(())
    }

    /// Whether a former run of the broker may have sent messages that did not come up in this one.
    pub(super) fn has_former(&self) -> bool {
        self.in_flight.has_former()
    }

    /// All of them have come up that still can. A client that has another one completes it.
    pub(super) fn release_former(&mut self) {
        self.in_flight.release_former().into_iter().for_each(|id| self.release(id, None));
    }

    /// Sends a message of a subscription.
    pub(super) fn deliver(
        &mut self,
        options: &Options,
        delivery: Delivery,
        coverage: Option<String>,
        due: Due,
        wall_ms: u64,
    ) {
        let Delivery { message, stamp, retained, .. } = delivery;
        let is_own = || message.publication().is_some_and(|publication| publication.publisher == self.own);
        if options.no_local && is_own() {
            due.settle();
            return;
        }
        let retain = if options.as_published { message.is_retained() } else { retained };
        let (qos, identifier) = (qos_of(&message).min(options.qos), options.identifier);
        let former = due.mark().and_then(|mark| self.in_flight.former(mark, &stamp));
        let sent = Sent { message, stamp, qos, retain, identifier, coverage, due };
        match former {
            Some(id) => {
                self.in_flight.go_on(id, sent);
                self.ready.push_back(id);
            }
            None if qos == Qos::AtMostOnce => {
                sent.write(&mut self.out, (0, false), wall_ms);
                sent.due.settle();
                return;
            }
            None => {
                let id = self.in_flight.begin(sent);
                match qos {
                    Qos::ExactlyOnce => self.begin(id),
                    _ => self.ready.push_back(id),
                }
            }
        }
        self.send_ready(wall_ms);
    }

    /// Sends messages whose turn it is, as far as the client has room.
    fn send_ready(&mut self, wall_ms: u64) {
        while self.in_flight.outstanding() < self.window
            && self.out.len() < self.room()
            && let Some(id) = self.ready.pop_front()
        {
            let Self { out, in_flight, .. } = self;
            let is_too_long = in_flight.send(id, |sent, was_sent| sent.write(out, (id, was_sent), wall_ms));
            if is_too_long {
                self.notes.free(id, None);
            }
        }
    }

    /// Has the identifier of a message at QoS 2 written before it is sent.
    fn begin(&mut self, id: u16) {
        let Some(outbound) = self.in_flight.outbound_of(id) else { return };
        if self.notes.note((id, Step::Send), outbound, None) {
            self.ready.push_back(id);
        }
    }

    /// Has it written that the client has a message before it is told to release its identifier.
    fn release(&mut self, id: u16, due: Option<&Due>) {
        let mark = due.and_then(Due::mark);
        if self.notes.note((id, Step::Release), Outbound::Released, mark) {
            self.tell_to_release(id);
        }
    }

    fn tell_to_release(&mut self, id: u16) {
        self.in_flight.released(id);
        self.write_release(id, Reason::SUCCESS);
    }

    fn write_release(&mut self, id: u16, reason: Reason) {
        self.out.acknowledge(Acknowledged::Release, id, reason, "");
    }
}

#[cfg(test)]
mod tests;
