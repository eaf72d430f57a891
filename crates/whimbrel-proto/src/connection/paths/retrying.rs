//! Challenging addresses again that did not answer.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::path_set::At;
use super::path_state::PathState;
use crate::connection::observe::path_cause::PathCause;
use crate::connection::packet::lengths::CHALLENGE_LEN;
use crate::connection::state::Connection;
use crate::{Side, Time};

/// If no path works, a server challenges one again after a quarter of the silence there, within these limits.
const SOONEST_AGAIN: Duration = Duration::from_millis(250);
const LATEST_AGAIN: Duration = Duration::from_secs(10);

impl Connection {
    /// Challenges paths again whose announcement the peer has acknowledged. A path that was opened before the peer knew
    /// our id for it could not be answered.
    pub(in crate::connection) fn ask_again(&mut self, now: Time) {
        for path in self.paths.iter_mut() {
            if path.announced().is_some_and(|told| !self.control.holds_notice(told)) {
                path.on_announcement_known(now);
            }
        }
    }

    /// Handles a challenge of the path's own address that was not answered.
    pub(in crate::connection) fn on_unanswered(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        if self.side == Side::Client && path.lifecycle.state() == PathState::Opening {
            self.supply.on_failed(now, path.local(), path.remote());
        }
    }

    /// Closes paths whose remote address did not answer, to try again later. One that may be the only way is challenged
    /// again instead.
    pub(in crate::connection) fn close_unanswered(&mut self, now: Time) {
        if self.supply.handle_timeout(now) {
            self.open_missing(now);
        }
        for at in self.paths.all() {
            let path = &self.paths[at];
            if path.lifecycle.state() != PathState::Opening || path.rebinding().is_some() {
                continue;
            }
            let (local, remote) = (path.local(), path.remote());
            if self.side == Side::Server {
                self.ask_while_none_works(now, at);
                continue;
            }
            if self.paths.all().any(|other| self.is_at_hand(other)) {
                self.close_at(now, at, PathCause::ChallengeFailed);
            } else if !self.aim_elsewhere(now, at) && !self.supply.is_waiting(local, remote) {
                if self.supply.may_ask(now, remote) {
                    let challenge = self.supply.challenge();
                    let length = self.opening_len();
                    self.paths[at].ask(now, challenge, length);
                    self.supply.on_asked(remote);
                } else {
                    self.supply.on_failed(now, local, remote);
                }
            }
        }
    }

    /// Moves an unanswered path to an address pair that has no path, and challenges that. This is for when no path
    /// works and no id is left for another: the peer cannot be told to give more. An observer of both networks may link
    /// them by the path's id. Returns whether there was such a pair.
    fn aim_elsewhere(&mut self, now: Time, at: At) -> bool {
        if self.supply.ids.ready().is_some() {
            return false;
        }
        let may_ask = self.supply.may_ask_strangers(now);
        let asked =
            |(_, remote): &(IpAddr, SocketAddr)| may_ask || self.supply.addresses.has_answered(*remote);
        let Some((local, remote)) = self.missing_pairs().into_iter().find(asked) else { return false };
        self.supply.on_asked(remote);
        let challenge = self.supply.challenge();
        let length = self.opening_len();
        let settings = self.supply.addresses.settings(Some(local));
        let path = &mut self.paths[at];
        path.aim_at(local, remote);
        // The cost and the standby setting are those of the new address.
        path.cost.set(settings.map_or(0, |settings| settings.cost));
        path.standby_wanted(settings.is_some_and(|settings| settings.standby));
        path.ask(now, challenge, length);
        let id = path.id();
        self.note_path(id, PathCause::AimedElsewhere);
        true
    }

    /// Challenges the client on a path if no path works. A server mostly waits for the client to send. But the client
    /// may be sending to an address that a NAT at this end has dropped, and only a packet from here shows it the new
    /// one. Challenges become rarer the longer nothing comes, and stay within the amplification limit.
    fn ask_while_none_works(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        if path.room() < CHALLENGE_LEN || self.paths.all().any(|other| self.is_at_hand(other)) {
            return;
        }
        let silence = path.pulse.unheard_for(now);
        let then = now + (silence / 4).clamp(SOONEST_AGAIN, LATEST_AGAIN);
        let challenge = self.supply.challenge();
        self.paths[at].challenge(then, challenge);
    }

    /// Handles a report of the operating system that a link came up: silent paths are probed at once, and failed
    /// address pairs are tried again.
    pub fn handle_link_up(&mut self, now: Time) {
        if let Some(observer) = &mut self.observer {
            observer.on_link_up(now);
        }
        for at in self.paths.all() {
            self.paths[at].on_link_up(now);
            self.ask_anew(now, at);
        }
        self.supply.on_link_up();
        self.open_missing(now);
        self.close_unanswered(now);
        self.dial_now(now);
    }

    /// Challenges an opening path again if all its challenges are spent. A link comes up in steps, each reported by
    /// itself, so the challenges may be spent before packets get through. An address that has answered before may be
    /// challenged more often.
    fn ask_anew(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        let opens = self.side == Side::Client && path.lifecycle.state() == PathState::Opening;
        if opens && path.is_spent() && self.supply.addresses.has_answered(path.remote()) {
            let challenge = self.supply.challenge();
            let length = self.opening_len();
            self.paths[at].ask(now, challenge, length);
        }
    }
}
