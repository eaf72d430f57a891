//! Resuming: a session goes on over another connection. The application's handle stays; keys and paths are new.

use super::attachment::Attachment;
use super::close::{CloseReason, Ending};
use super::resuming::Resuming;
use super::succession::Succession;
use crate::connection::datagram::Datagram;
use crate::connection::event::{EndpointEvent, Event};
use crate::connection::observe::observer::Observer;
use crate::connection::paths::addresses::LocalAddress;
use crate::connection::paths::destination::Destination;
use crate::connection::paths::path_set::Main;
use crate::connection::paths::path_state::PathState;
use crate::connection::state::{Connection, Setup};
use crate::crypto::Claim;
use crate::handshake::{Accepted, Params, Resumed};
use crate::mutants::{Mutant, planted};
use crate::session::Session;
use crate::wire::packet::destination;
use crate::{Side, Time};

impl Connection {
    /// Handles a client's request to carry the session on over another connection. It is answered now, but takes effect
    /// only once a packet under the new keys arrives. So a lost answer locks nobody out.
    pub fn handle_resume(&mut self, now: Time, resuming: Resuming) {
        let Resuming { accepted, setup } = resuming;
        let id = setup.local_id;
        if matches!(self.ending, Ending::Suspending { .. }) {
            // This end is about to leave, too. Whoever comes back next finds the other.
            if let Some(observer) = &mut self.observer {
                observer.on_resume_ignored(now, "this end suspends, too");
            }
            self.endpoint_events.push_back(EndpointEvent::IdUnused(id));
            return;
        }
        let answer = self.weigh_claim(&accepted);
        if let Some(observer) = &mut self.observer {
            observer.on_resume_asked(now, &accepted.client_key, setup.remote, answer);
        }
        let (config, budgets) = (std::sync::Arc::clone(&self.config), self.budgets.clone());
        let mut fresh = Self::new(now, Setup { config, budgets, ..setup });
        fresh.succession = Succession::answered(&self.succession.attachment, answer != Resumed::Yes);
        if fresh.accept_resuming(now, accepted, answer).is_err() || !self.has_room_for(&fresh) {
            if let Some(observer) = &mut self.observer {
                observer.on_resume_ignored(now, "too many others ask, or its first data broke the protocol");
            }
            self.endpoint_events.push_back(EndpointEvent::IdUnused(id));
            return;
        }
        if !fresh.succession.is_refusal() {
            if let Some(next) = self.next_claim(&fresh) {
                self.succession.attachment.offer(next.clone());
                fresh.succession.attachment.advance(next);
            }
            // The peer is alive and may act on the grant, so the session is kept for the idle timeout at least.
            self.activity.received = now;
            self.ending.wait_until(now + self.activity.idle_timeout);
        }
        self.succession.add(fresh);
    }

    /// Returns whether the peer was granted another connection, and nothing has arrived on it yet.
    pub(in crate::connection) fn is_awaited(&self) -> bool {
        self.succession.is_awaited()
    }

    fn has_room_for(&mut self, fresh: &Self) -> bool {
        let Ok(gone) = self.succession.make_room(fresh.succession.is_refusal()) else { return false };
        self.endpoint_events.extend(gone.map(EndpointEvent::IdUnused));
        true
    }

    /// Returns the session's next claim, which holds if `fresh` carries the session.
    fn next_claim(&self, fresh: &Self) -> Option<Claim> {
        let fresh = fresh.keys.as_ref()?.keys().resumption(fresh.side);
        self.claim().map(|claim| claim.next(&fresh))
    }

    fn weigh_claim(&mut self, accepted: &Accepted) -> Resumed {
        let (Some(proof), Some(claim)) = (accepted.params.resume, self.claim()) else {
            return Resumed::Unknown;
        };
        let is_heir = self.succession.attachment.is_heir(&accepted.client_key);
        if self.peer.key != Some(accepted.client_key) && !is_heir {
            Resumed::Unknown
        } else if planted(Mutant::ResumedAgain) {
            Resumed::Yes
        } else if self.ending.is_over() {
            Resumed::Expired
        } else if proof.epoch <= claim.epoch {
            Resumed::Already
        } else if accepted.proves(&claim) || self.accept_offered(accepted) {
            Resumed::Yes
        } else {
            Resumed::Unknown
        }
    }

    /// Accepts a claim that was offered and never used: its holder received PONG, and lost the connection at once. All
    /// other offered claims become void.
    fn accept_offered(&mut self, accepted: &Accepted) -> bool {
        let is_accepted = self.succession.attachment.accept_offered(|claim| accepted.proves(claim));
        if is_accepted {
            self.endpoint_events.extend(self.succession.void_pending().map(EndpointEvent::IdUnused));
        }
        is_accepted
    }

    /// Handles a datagram for a pending connection. Returns true if nothing else is to be done. Returns false if the
    /// datagram is for this connection, or if the pending one has just taken its place.
    pub(in crate::connection) fn handle_pending(&mut self, now: Time, datagram: &Datagram) -> bool {
        let Some(index) = self.pending_id(datagram) else { return false };
        let pending = self.succession.pending(index);
        let at = pending.paths.main();
        let opens = pending.open(now, Destination::Path(at), &mut datagram.bytes.clone()).is_some();
        if opens && !pending.succession.is_refusal() && !self.ending.is_over() {
            let fresh = self.succession.take_pending(index);
            self.attach(now, fresh);
            return false;
        }
        true
    }

    pub(in crate::connection) fn pending_id(&self, datagram: &Datagram) -> Option<usize> {
        let (_, id) = destination(&datagram.bytes)?;
        self.succession.find(id)
    }

    /// Moves the session to `fresh`, which takes this connection's place. The old keys and paths are no longer used.
    pub(in crate::connection) fn attach(&mut self, now: Time, mut fresh: Self) {
        let open = self.paths.iter().filter(|path| path.lifecycle.state() != PathState::Closed);
        let closed: Vec<Event> = open.map(|path| Event::PathClosed(Box::new(path.stats()))).collect();
        self.abandon_all(now);
        fresh.succession.attachment.on_attached();
        let limits = fresh.session.peer_limits();
        std::mem::swap(&mut fresh.session, &mut self.session);
        fresh.session.set_peer_limits(limits);
        fresh.session.end_wait();
        fresh.peer.key = fresh.peer.key.or(self.peer.key);
        fresh.peer.protocol = fresh.peer.protocol.take().or(self.peer.protocol.take());
        let (from, to) = (self.remote(), fresh.remote());
        if let Some(since) = self.activity.unreachable_since {
            self.ending.extend(now.since(since));
        }
        fresh.ending = self.ending.begin_again();
        fresh.suspend_again(self);
        fresh.figures.watch = self.figures.watch.take();
        fresh.supply.addresses.go_on_from(&self.supply.addresses);
        if from != to {
            fresh.supply.addresses.on_answered(from);
        }
        fresh.figures.past = Some(Box::new(self.totals()));
        fresh.figures.deadlines = self.figures.deadlines.take();
        fresh.figures.dropped = self.figures.dropped;
        fresh.events.retain_from(0, |event| *event != Event::Connected);
        fresh.events.push_front(match self.ending {
            Ending::Detached { .. } => Event::Reattached { from, to },
            _ => Event::PeerResumed { from, to },
        });
        self.events.extend(closed);
        while let Some(event) = self.events.pop_back() {
            fresh.events.push_front(event);
        }
        if fresh.side == Side::Server {
            fresh.endpoint_events.push_front(EndpointEvent::Reattached { id: fresh.local_id() });
        }
        while let Some(event) = self.endpoint_events.pop_back() {
            fresh.endpoint_events.push_front(event);
        }
        let ours: Vec<LocalAddress> = self.supply.addresses.ours().copied().collect();
        fresh.observer = Observer::succeed(self.observer.take(), fresh.observer.take());
        if let Some(observer) = &mut fresh.observer {
            let reason = match self.ending {
                Ending::Detached { .. } => "the connection was given up",
                Ending::Waiting { .. } => "the peer resumed its end",
                _ => "the peer came over another connection",
            };
            observer.on_attached(now, reason, [self.local_id(), fresh.paths[Main].local_id()], [from, to]);
        }
        *self = fresh;
        self.tell_again(now, &ours);
    }

    /// Announces this host's addresses again, which the peer knew from the previous connection.
    fn tell_again(&mut self, now: Time, ours: &[LocalAddress]) {
        let events = self.events.len();
        self.set_local_addresses(now, ours);
        // They are not new to the application.
        let is_news = |event: &Event| !matches!(event, Event::LocalAddressAdded(_));
        self.events.retain_from(events, is_news);
    }

    /// Handles the server's answer to RESUME. Returns whether the connection goes on.
    pub(in crate::connection) fn on_resumed(&mut self, now: Time, params: &Params) -> bool {
        if !self.succession.on_answer() {
            return true;
        }
        let why = match params.resumed {
            Some(Resumed::Yes) => {
                if let (Some(claim), Some(keys)) = (self.claim(), &self.keys) {
                    let fresh = keys.keys().resumption(self.side);
                    self.succession.attachment.advance(claim.next(&fresh));
                }
                let id = self.local_id();
                self.endpoint_events.push_back(EndpointEvent::Reattached { id });
                if let Some(observer) = &mut self.observer {
                    observer.on_resumed(now);
                }
                return true;
            }
            Some(Resumed::Already) => CloseReason::AlreadyResumed,
            Some(Resumed::Expired) => CloseReason::ResumeExpired,
            Some(Resumed::Unknown) | None => CloseReason::UnknownSession,
        };
        self.finish(now, why, None);
        false
    }

    /// Takes a restored session, which the handshake to come resumes.
    pub(crate) fn begin_resume(&mut self, session: Session, attachment: Attachment) {
        self.session = session.drawing_on(&self.budgets);
        self.succession.ask_for(attachment);
    }

    /// Waits for the peer of a restored session to resume it.
    pub(crate) fn begin_waiting(
        &mut self,
        now: Time,
        session: Session,
        attachment: Attachment,
        peer_key: crate::crypto::PublicKey,
    ) {
        self.session = session.drawing_on(&self.budgets);
        self.succession.attachment = attachment;
        self.peer.key = Some(peer_key);
        self.coding.trim();
        self.ending = Ending::Waiting { until: now + self.config.wait_time };
    }

    /// Repeats the PONG of the pending connection that `ping` is for. Returns whether there is one.
    pub(in crate::connection) fn repeat_pending(&mut self, ping: &Datagram) -> bool {
        let Some(index) = self.pending_id(ping) else { return false };
        let pending = self.succession.pending(index);
        if ping.from == pending.paths[Main].remote() {
            pending.pong.due = true;
        }
        true
    }

    /// Returns how long a pending connection may stay silent. A granted one is kept for as long as the peer may rely on
    /// it.
    pub(in crate::connection) fn pending_until(&self) -> Time {
        let refused = self.succession.is_refusal();
        self.activity.received
            + if refused { self.config.handshake_timeout } else { self.activity.idle_timeout }
    }

    /// Drops pending connections that have been silent for too long.
    pub(in crate::connection) fn expire_pending(&mut self, now: Time) {
        let over = self.succession.expire(now);
        if let Some(observer) = &mut self.observer {
            over.iter().for_each(|id| observer.on_grant_expired(now, *id));
        }
        self.endpoint_events.extend(over.into_iter().map(EndpointEvent::IdUnused));
    }
}
