//! A client that is connected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep_until};
use whimbrel_pubsub::message::Message;

use super::admission::Admitted;
use super::answers::fault_of;
use super::away::Away;
use super::clients::Place;
use super::codec::{Fault, Packet, Reason, Version};
use super::core::Gateway;
use super::incoming::Incoming;
use super::kept::Kept;
use super::limits::LONGEST_SESSION;
use super::link::{Link, send, shrink, take_packet};
use super::outgoing::{Outgoing, ROOM};
use super::stored::{self, Line};
use super::subscriptions::{Subscriptions, stops};
use crate::hub::{Hub, SessionName};

/// Packets of the client are taken while fewer bytes wait for its socket.
const HIGH: usize = 2 * ROOM;
/// The longest time until a semi-durable subscription is told its coverage.
const COVER_EVERY: Duration = Duration::from_secs(5);

/// The terms on which a client and the broker agreed.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) version: Version,
    /// The client is gone if it is silent for so long.
    pub(super) keep_alive: Option<Duration>,
    /// For how long the session is kept after the connection.
    pub(super) expiry: Duration,
    /// The message that is published if the client goes without saying so, and how long after.
    pub(super) will: Option<(Message, Duration)>,
}

/// A client that is connected.
#[derive(Debug)]
pub(super) struct Session<S> {
    pub(super) gateway: Arc<Gateway>,
    pub(super) admitted: Admitted,
    /// Tells that other rules hold.
    pub(super) changes: watch::Receiver<()>,
    pub(super) link: Link<S>,
    pub(super) place: Place,
    pub(super) terms: Terms,
    pub(super) incoming: Incoming,
    pub(super) outgoing: Outgoing,
    pub(super) subscriptions: Subscriptions,
    /// Whether the session is on disk.
    pub(super) is_stored: bool,
    /// Why it ends at once.
    pub(super) fault: Option<Fault>,
    pub(super) stop: watch::Receiver<()>,
}

/// Why a session ends.
enum End {
    /// The client said so, and does not want its Will.
    Left,
    /// The client said so, and wants its Will.
    LeftWithWill,
    /// The connection is lost.
    Lost,
    /// The broker ends it.
    Fault(Fault),
}

impl<S: AsyncRead + AsyncWrite> Session<S> {
    /// Serves the client until its connection ends, and leaves what is kept of it.
    pub(super) async fn run(mut self: Box<Self>) {
        let end = self.serve().await;
        // Boxed, as all that an idle client does not do: there are many of them, and each would have room for it.
        Box::pin(self.leave(end)).await;
    }

    async fn leave(self: Box<Self>, end: End) {
        let Self {
            gateway,
            admitted,
            link,
            place,
            terms,
            incoming,
            mut outgoing,
            subscriptions,
            is_stored,
            ..
        } = *self;
        if let End::Fault(Fault { reason, why }) = &end {
            outgoing.out.disconnect(*reason, why);
        }
        let mut rest = std::mem::take(outgoing.out.bytes());
        let now = Instant::now();
        let will = if matches!(end, End::Left) { None } else { terms.will };
        // Rules may have changed.
        let will =
            will.filter(|(message, _)| admitted.is_still() && admitted.may_publish(message.topic()).is_ok());
        let (due, later) = match will {
            Some((message, delay)) if delay.min(terms.expiry).is_zero() => (Some(message), None),
            Some((message, delay)) => (None, Some((message, now + delay))),
            None => (None, None),
        };
        if let Some(message) = due {
            gateway.wills.publish(place.user(), message);
        }
        let (session, mut is_over) = if terms.expiry.is_zero() {
            (None, is_stored)
        } else {
            let (subscriptions, shared) = subscriptions.park();
            let (in_flight, received) = (outgoing.into_in_flight(), incoming.into_received().await);
            let kept = Kept { subscriptions, shared, in_flight, received, is_stored, ..Kept::default() };
            if is_stored {
                keep_later(&gateway.hub, &place.session(), (terms.expiry, Some(terms.expiry)), kept.lines());
            }
            (Some((kept, now + terms.expiry)), false)
        };
        if is_over {
            // What cannot be ended now is ended later.
            is_over = end_on_disk(&gateway.hub, place.session()).await.is_err();
        }
        // Whoever takes over does not wait for the connection.
        place.leave(Away { session, will: later, is_over });
        if !matches!(end, End::Lost) {
            link.close(&mut rest).await;
        }
    }

    async fn serve(&mut self) -> End {
        if let Some(fault) = self.fault.take() {
            return End::Fault(fault);
        }
        let notify = self.subscriptions.notify();
        let mut covers = interval(COVER_EVERY);
        covers.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = tokio::time::Instant::now();
        loop {
            let taken = self.take_packets().await;
            self.incoming.wake();
            if let Err(fault) = self.outgoing.go_on(&self.gateway.hub) {
                return End::Fault(fault);
            }
            match taken {
                Ok(None) => {}
                Ok(Some(end)) => return end,
                Err(fault) => return End::Fault(fault),
            }
            let has_more = match self.subscriptions.read(&mut self.outgoing).await {
                Ok(has_more) => has_more,
                Err(fault) => return End::Fault(fault),
            };
            let out = self.outgoing.out.bytes();
            let (waiting, keep_alive) = (out.len(), self.terms.keep_alive);
            let is_sending = waiting > 0 || self.link.is_flushing;
            // A client that is held back is not silent. TCP slows it down.
            let held = self.incoming.held().map(tokio::time::Instant::from_std);
            let is_waiting = self.incoming.is_waiting();
            heard = held.unwrap_or(heard).max(if is_waiting { tokio::time::Instant::now() } else { heard });
            let silent = keep_alive.map_or(heard, |keep_alive| heard + keep_alive);
            self.link.make_room();
            // It is shared by many clients, so it is looked at only if it has to be.
            let room = is_waiting.then(|| self.incoming.room());
            tokio::select! {
                () = sleep_until(held.unwrap_or(heard)), if held.is_some() => {}
                read = self.link.reader.read_buf(&mut self.link.input), if waiting < HIGH && held.is_none() && !is_waiting => match read {
                    Ok(0) | Err(_) => return End::Lost,
                    Ok(bytes) => {
                        heard = tokio::time::Instant::now();
                        self.link.came(bytes);
                    }
                },
                sent = send(&mut self.link.writer, out, &mut self.link.is_flushing), if is_sending => {
                    if sent.is_err() {
                        return End::Lost;
                    }
                    shrink(self.outgoing.out.bytes());
                }
                () = self.incoming.known() => if let Err(fault) = self.incoming.go_on(&mut self.outgoing.out) {
                    return End::Fault(fault);
                },
                // What it waits for is handled at the begin of the next round.
                () = self.outgoing.notes.known() => {}
                () = async { if let Some(room) = room { room.await } }, if is_waiting => if let Err(fault) = self.incoming.go_on(&mut self.outgoing.out) {
                    return End::Fault(fault);
                },
                () = notify.notified() => {}
                () = tokio::task::yield_now(), if has_more && waiting < ROOM => {}
                _ = covers.tick() => self.subscriptions.tell_coverage(&mut self.outgoing),
                () = self.place.kicked() => {
                    let why = "another connection uses the client identifier";
                    return End::Fault(Fault::new(Reason::TAKEN_OVER, why));
                }
                () = sleep_until(silent), if keep_alive.is_some() => {
                    return End::Fault(Fault::new(Reason::KEEP_ALIVE, "the client was silent for too long"));
                }
                _ = self.changes.changed() => if let Err(fault) = self.subscriptions.judge() {
                    return End::Fault(fault);
                },
                _ = self.stop.changed() => {
                    return End::Fault(Fault::new(Reason::SHUTTING_DOWN, "the broker stops"));
                }
            }
        }
    }

    /// Handles what came, as far as answers have room and messages are stored.
    async fn take_packets(&mut self) -> Result<Option<End>, Fault> {
        while self.outgoing.out.len() < HIGH && self.incoming.held().is_none() && !self.incoming.is_waiting()
        {
            let packet = take_packet(&mut self.link.input, self.gateway.limits.max_packet)?;
            let Some((first, body)) = packet else { break };
            let packet = Packet::read(first, &body, Some(self.terms.version))?;
            let is_slow = self.needs_disk(&packet);
            let handled =
                if is_slow { Box::pin(self.handle_slowly(packet)).await } else { self.handle(packet) };
            if let Some(end) = handled? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Whether a packet may have to wait for the disk before it is answered.
    fn needs_disk(&self, packet: &Packet<'_>) -> bool {
        match packet {
            Packet::Subscribe { .. } | Packet::Unsubscribe { .. } => true,
            Packet::Publish(publish) => !self.is_stored && self.incoming.keeps(publish),
            _ => false,
        }
    }

    async fn handle_slowly(&mut self, packet: Packet<'_>) -> Result<Option<End>, Fault> {
        match packet {
            Packet::Subscribe { id, properties, filters } => {
                let (reasons, why) = self.subscriptions.subscribe(&properties, &filters).await;
                if self.is_stored || self.subscriptions.are_durable() {
                    self.store().await?;
                }
                self.outgoing.out.suback(id, &reasons, &why);
            }
            Packet::Unsubscribe { id, filters } => {
                let reasons = self.subscriptions.unsubscribe(&filters).await?;
                if self.is_stored {
                    self.store().await?;
                }
                self.outgoing.out.unsuback(id, &reasons);
            }
            packet => {
                self.store().await?;
                return self.handle(packet);
            }
        }
        Ok(None)
    }

    fn handle(&mut self, packet: Packet<'_>) -> Result<Option<End>, Fault> {
        match packet {
            Packet::Publish(publish) => {
                let is_named = self.subscriptions.has_no_local();
                self.incoming.publish(&publish, is_named, &mut self.outgoing.out)?;
            }
            Packet::Puback(id) => self.outgoing.acknowledged(id)?,
            Packet::Pubrec(id, reason) => self.outgoing.received(id, reason)?,
            Packet::Pubcomp(id) => self.outgoing.completed(id)?,
            Packet::Pubrel(id) => self.incoming.release(id, &mut self.outgoing.out)?,
            // They were handled slowly.
            Packet::Subscribe { .. } | Packet::Unsubscribe { .. } => {}
            Packet::Pingreq => self.outgoing.out.pingresp(),
            Packet::Disconnect { reason, session_expiry } => {
                if let Some(seconds) = session_expiry {
                    self.change_expiry(Duration::from_secs(seconds.into()))?;
                }
                let end = if reason == Reason::WITH_WILL { End::LeftWithWill } else { End::Left };
                return Ok(Some(if reason.0 >= 0x80 { End::LeftWithWill } else { end }));
            }
            Packet::Connect(_) => return Err(Fault::protocol("the client sent CONNECT twice")),
        }
        Ok(None)
    }

    /// Keeps the session on disk. It is there when this returns.
    async fn store(&mut self) -> Result<(), Fault> {
        let (hub, name) = (Arc::clone(&self.gateway.hub), self.place.session());
        let (expiry, lines) = (self.terms.expiry, self.subscriptions.lines());
        let outbound = if self.is_stored { Vec::new() } else { self.outgoing.outbound() };
        let (of_errand, session) = (Arc::clone(&hub), name.clone());
        // The first time the store may have to be opened.
        let kept = hub.errand_of_session(&session, move || {
            of_errand.keep_session(&name, (expiry, None), stored::encode(lines))?;
            for (id, outbound) in outbound {
                of_errand.note_outbound(&name, (id, Some(outbound)), None);
            }
            of_errand.written()
        });
        let written = kept.await.map_err(|_| stops())?.map_err(fault_of)?;
        if !self.is_stored {
            self.outgoing.keep(&self.gateway.hub, self.place.session());
        }
        self.is_stored = true;
        written.done().await.map_err(|error| Fault::new(Reason::QUOTA, error.to_string()))
    }

    fn change_expiry(&mut self, asked: Duration) -> Result<(), Fault> {
        if self.terms.expiry.is_zero() && !asked.is_zero() {
            return Err(Fault::protocol(
                "a session that is not kept cannot be given an expiry interval when it ends",
            ));
        }
        self.terms.expiry = asked.min(LONGEST_SESSION);
        Ok(())
    }
}

/// Has the row of a session written later. What it lacks costs no more than a part of the session's time.
pub(super) fn keep_later(
    hub: &Hub,
    name: &SessionName,
    (expiry, left): (Duration, Option<Duration>),
    lines: Vec<Line>,
) {
    drop(hub.keep_session(name, (expiry, left), stored::encode(lines)));
}

/// Ends a session on disk.
pub(super) async fn end_on_disk(hub: &Arc<Hub>, name: SessionName) -> Result<(), Fault> {
    let (of_errand, session) = (Arc::clone(hub), name.clone());
    let ended = hub.errand_of_session(&session, move || of_errand.end_session(&name)).await;
    ended.map_err(|_| stops())?.map_err(fault_of)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;
    use tokio::task::JoinSet;
    use tokio::time::timeout;
    use whimbrel_pubsub::coverage::ClusterId;
    use whimbrel_pubsub::message::BrokerId;

    use super::*;
    use crate::hub::{BrokerName, ChannelRules};

    /// Each session took a thread, so that all who need one waited for the disk with them.
    #[test]
    #[expect(clippy::await_holding_lock, reason = "the disk is slow for as long as the test says")]
    fn regression_sessions_of_a_user_leave_threads_for_others() {
        let runtime = Builder::new_current_thread().max_blocking_threads(8).enable_time().build().unwrap();
        runtime.block_on(async {
            let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(1), name: "here".into() };
            let hub = Hub::new(name, vec![ChannelRules::all_topics()], crate::matching::Limits::default());
            let slow = hub.hold_changes();
            let mut ending = JoinSet::new();
            for client in 0..32 {
                let (hub, user, client) = (Arc::clone(&hub), Some("flood".to_owned()), format!("{client}"));
                ending.spawn(async move { end_on_disk(&hub, SessionName { user, client }).await });
            }
            tokio::task::yield_now().await;
            let other = tokio::task::spawn_blocking(|| ());
            assert!(timeout(Duration::from_secs(10), other).await.is_ok(), "it waits for sessions of others");
            drop(slow);
            assert!(ending.join_all().await.into_iter().all(|ended| ended.is_ok()));
        });
    }
}
