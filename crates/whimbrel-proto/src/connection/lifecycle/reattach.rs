//! Reattaching: the connection is given up, but its session is not. Both ends keep the session, and the one that
//! connected dials until it is answered.

use std::net::IpAddr;

use super::close::{CloseReason, Ending};
use super::dial::Dial;
use super::redial::{AddressPair, Redial};
use crate::connection::datagram::Datagram;
use crate::connection::event::{EndpointEvent, Event};
use crate::connection::handshake::opening::Opening;
use crate::connection::state::{Connection, Setup};
use crate::expected::Expected;
use crate::{ConnectionId, Side, Time};

/// The most address pairs that are tried at once.
const MOST_WAYS: usize = crate::connection::paths::path_set::MOST_PATHS;

impl Connection {
    /// Handles an idle timeout: keeps the session without the connection where that is possible, otherwise ends both.
    pub(in crate::connection) fn on_out_of_service(&mut self, now: Time) {
        self.events.push_back(Event::OutOfService);
        if self.may_detach() {
            self.detach(now, "nothing was heard for the idle timeout");
        } else {
            self.finish(now, CloseReason::TimedOut, None);
        }
    }

    /// Returns whether the session may outlive the connection: reattaching is configured, no end is under way, and
    /// there is a claim to resume by.
    pub(in crate::connection) fn may_detach(&self) -> bool {
        self.config.reattach.is_some()
            && self.ending.is_open()
            && self.peer.confirmed
            && self.claim().is_some()
    }

    /// Gives the connection up and keeps the session.
    pub(in crate::connection) fn detach(&mut self, now: Time, reason: &'static str) {
        let (Some(keep), Some(peer)) = (self.config.reattach, self.peer.key) else { return };
        if let Some(observer) = &mut self.observer {
            observer.on_detached(now, reason, keep);
        }
        self.coding.trim();
        self.ending = Ending::Detached { until: now + keep };
        self.events.push_back(Event::Detached);
        let bytes = self.session.kept_bytes();
        self.endpoint_events.push_back(EndpointEvent::WaitWanted { peer, bytes });
        // The end that reached the other first can do so again. In the other direction a NAT may be in the way.
        if self.session.side() == Side::Client {
            self.endpoint_events.push_back(EndpointEvent::DialWanted { peer });
        }
    }

    /// Handles the endpoint's answer to `DialWanted`: begins a handshake that resumes the session.
    pub(in crate::connection) fn begin_dial(&mut self, dial: Dial) {
        let Dial { now, mut handshake, local_id, rng } = dial;
        let Ending::Detached { until } = self.ending else { return };
        let Some(claim) = self.claim().expected("the claim to a detached session") else { return };
        handshake.resume(claim.clone());
        let setup = Setup {
            side: Side::Client,
            config: std::sync::Arc::clone(&self.config),
            session: self.session.shared_config(),
            budgets: self.budgets.clone(),
            remote: self.remote(),
            local: None,
            local_id,
            remote_id: ConnectionId(0),
            issues_tickets: false,
            rng,
        };
        let mut fresh = Self::new(now, setup);
        let mut attachment = self.succession.attachment.clone();
        attachment.advance(claim);
        fresh.succession.ask_for(attachment);
        let params = Self::own_params(&self.config);
        // The handshake is not given up before the session is.
        let patience = until.since(now) + self.config.handshake_timeout;
        fresh.open_with(now, Opening::new(now, handshake, params, false, patience, None));
        let ways = self.ways();
        if let Some(observer) = &mut self.observer {
            observer.on_dialling(now, local_id, ways.len());
        }
        self.succession.begin_dial(Redial::new(fresh, ways));
    }

    /// Returns each address of this host paired with each address of the peer that has answered, starting with the
    /// current ones.
    fn ways(&self) -> Vec<AddressPair> {
        let mut remotes = vec![self.remote()];
        let proven = self.paths.iter().filter(|path| path.lifecycle.is_proven());
        for remote in proven.map(|path| path.remote()).chain(self.supply.addresses.answered()) {
            if !remotes.contains(&remote) {
                remotes.push(remote);
            }
        }
        let locals: Vec<IpAddr> = self.supply.addresses.ours().map(|ours| ours.address.ip()).collect();
        let mut ways: Vec<AddressPair> = Vec::new();
        for remote in remotes {
            let fitting = locals.iter().filter(|local| local.is_ipv4() == remote.is_ipv4());
            ways.extend(fitting.map(|local| (Some(*local), remote)));
            if locals.is_empty() {
                ways.push((None, remote));
            }
        }
        if ways.is_empty() {
            ways.push((None, self.remote()));
        }
        ways.truncate(MOST_WAYS);
        ways
    }

    /// Dials at once over the current addresses: a way may be open again, or a new one.
    pub(in crate::connection) fn dial_now(&mut self, now: Time) {
        let ways = self.ways();
        if let Some(dial) = self.succession.dial() {
            dial.hurry(now, ways);
        }
    }

    /// Handles a handshake packet that arrives while the session is detached.
    pub(in crate::connection) fn handle_dialled(&mut self, now: Time, datagram: Datagram) {
        let Some(dial) = self.succession.dial() else {
            self.figures.dropped.handshake += 1;
            return;
        };
        dial.handle(now, datagram);
        let fresh = dial.fresh();
        if fresh.is_closed() {
            let why = std::iter::from_fn(|| fresh.events.pop_front()).find_map(|event| match event {
                Event::Closed(why) => Some(why),
                _ => None,
            });
            self.finish(now, refusal(why), None);
        } else if fresh.is_established()
            && let Some(dial) = self.succession.end_dial()
        {
            self.attach(now, dial.into_fresh());
        }
    }

    /// Goes on with the connection that was given up, because one of its packets arrived. The peer may not even have
    /// noticed.
    pub(in crate::connection) fn revive(&mut self, now: Time) {
        if let Some(observer) = &mut self.observer {
            observer.on_revived(now);
        }
        self.stop_waiting();
        self.events.push_back(Event::Reattached { from: self.remote(), to: self.remote() });
    }

    /// Ends the wait of the session, and any dialling.
    pub(in crate::connection) fn stop_waiting(&mut self) {
        self.session.end_wait();
        self.ending = Ending::Open;
        if let Some(dial) = self.succession.end_dial() {
            self.endpoint_events.push_back(EndpointEvent::IdUnused(dial.local_id()));
        }
        self.endpoint_events.push_back(EndpointEvent::WaitOver);
    }
}

/// Returns the reason to close with when the peer does not continue the session.
fn refusal(why: Option<CloseReason>) -> CloseReason {
    match why {
        Some(CloseReason::UnknownSession) => CloseReason::PeerRestarted,
        Some(CloseReason::ResumeExpired) | None => CloseReason::TimedOut,
        Some(why) => why,
    }
}
