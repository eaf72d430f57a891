//! Leaving and coming back: suspension on either side or on both, whether the process ends or not, and outages that
//! no connection survives.

use std::time::Duration;

use whimbrel_proto::{CloseReason, Event, SuspendMode, Suspended};

use super::away::Away;
use super::draft::Draft;
use super::run::Run;
use super::special::Special;
use crate::pair::End;

const SECOND: Duration = Duration::from_secs(1);

impl Run {
    pub(super) fn leave(&mut self, away: Away) {
        match away {
            Away::One { end, mode, time, crash, unheard, rebind } => {
                self.proven();
                if unheard {
                    self.go_dark();
                }
                let Some(state) = self.suspend(end, mode) else { return };
                self.stay_away(&[end], time);
                self.restore_links();
                // A peer that was not told dials if it began the session, at the server's former address.
                let dialled = end == End::Server && !self.was_told(end.other());
                self.rebind_away(rebind.filter(|moves| !(dialled && *moves == End::Server)));
                if dialled {
                    self.wait_for_peer(end, &state, crash);
                } else {
                    self.take_up(end, &state, crash);
                }
                self.until(|run| !run.is_away(end.other()) && !run.is_away(end));
            }
            Away::Both { apart, time, crash, rebind } => {
                self.proven();
                let ends = [End::Client, End::Server];
                let Some(first) = self.suspend_soon(ends[0], apart) else { return };
                let Some(second) = self.suspend(ends[1], SuspendMode::Snapshot) else { return };
                let first = first.unwrap_or_else(|| {
                    let limit = self.config.close_timeout + SECOND;
                    self.until_within(limit, |run| run.pair.closed(ends[0]).is_some());
                    self.taken(ends[0])
                });
                self.stay_away(&ends, time);
                self.restore_links();
                self.rebind_away(rebind);
                // The end that is dialled must be there first.
                self.wait_for_peer(ends[1], &second, crash);
                self.take_up(ends[0], &first, crash);
                self.until(|run| ends.iter().all(|end| !run.is_away(*end)));
            }
            Away::Outage { time, rebind } => {
                self.go_dark();
                let both = |run: &mut Self| End::BOTH.iter().all(|end| run.is_away(*end));
                let limit = 3 * self.config.idle_timeout;
                self.until_within(limit, both);
                self.stay_away(&[], time);
                self.restore_links();
                self.rebind_away(rebind.then_some(End::Client));
                self.until(|run| End::BOTH.iter().all(|end| !run.is_away(*end)));
            }
        }
    }

    fn rebind_away(&mut self, moves: Option<End>) {
        if let Some(end) = moves {
            self.coverage.special(Special::RebindAway);
            let node = self.pair.node(end);
            self.pair.world.rebind(node);
        }
    }

    /// Waits until both ends know that they are connected.
    pub(super) fn proven(&mut self) {
        self.restore_links();
        let proven = |run: &mut Self, end| run.pair.connection(end).is_peer_proven() && !run.is_away(end);
        self.until(|run| End::BOTH.iter().all(|end| proven(run, *end)));
    }

    /// Before another outage of this length: if outages close to each other would add up to the idle timeout, waits until
    /// both ends have heard from each other.
    pub(super) fn end_silence(&mut self, outage: Duration) {
        let most = self.config.idle_timeout / 2;
        let silent = |run: &mut Self, most| {
            End::BOTH.iter().any(|end| !run.is_away(*end) && run.pair.stats(*end).silent_for > most)
        };
        if silent(self, most.saturating_sub(outage)) {
            let limit = self.config.idle_timeout / 2;
            self.until_within(limit, |run| !silent(run, Duration::from_secs(5)));
        }
    }

    /// Returns whether the end was told that the other is suspended, and waits for it.
    fn was_told(&mut self, end: End) -> bool {
        let told = |event: &&Event| {
            matches!(event, Event::PeerSuspended | Event::Reattached { .. } | Event::PeerResumed { .. })
        };
        self.pair.events(end).iter().rev().find(told) == Some(&Event::PeerSuspended)
    }

    fn is_away(&mut self, end: End) -> bool {
        let Some(connection) = self.pair.try_connection(end) else { return true };
        connection.is_waiting() || !connection.is_established()
    }

    fn go_dark(&mut self) {
        self.pair.relink("loss=100%");
        if self.second {
            self.relink_second("loss=100%", "loss=100%");
        }
    }

    pub(super) fn suspend(&mut self, end: End, mode: SuspendMode) -> Option<Suspended> {
        let now = self.pair.now();
        self.pair.connection(end).suspend(now, mode, None).ok()?;
        self.away = true;
        let limit = self.config.close_timeout + SECOND;
        self.until_within(limit, |run| run.pair.closed(end).is_some());
        Some(self.taken(end))
    }

    /// Starts to suspend. Returns the state if suspension is complete after `apart`.
    fn suspend_soon(&mut self, end: End, apart: Duration) -> Option<Option<Suspended>> {
        let now = self.pair.now();
        self.pair.connection(end).suspend(now, SuspendMode::Snapshot, None).ok()?;
        self.away = true;
        self.pass(apart);
        Some(self.pair.closed(end).is_some().then(|| self.taken(end)))
    }

    /// The state that an end left, written to bytes and read again.
    fn taken(&mut self, end: End) -> Suspended {
        self.pump();
        assert_eq!(self.pair.closed(end), Some(CloseReason::Suspended));
        let (node, handle) = self.pair.place(end).expect("it is there");
        let state = self.pair.world.take_suspended(node, handle).expect("the state is there");
        Suspended::from_bytes(&state.to_bytes()).expect("it was just written")
    }

    /// Lets time pass while the remaining ends keep sending.
    fn stay_away(&mut self, away: &[End], time: Duration) {
        for end in End::BOTH.into_iter().filter(|end| !away.contains(end)) {
            self.send(end, &Draft::plain(700));
        }
        self.pass(time);
    }

    pub(super) fn take_up(&mut self, end: End, state: &Suspended, crash: bool) {
        let node = self.node(end, crash);
        let peer = self.node(end.other(), false);
        let to = self.pair.world.address(peer);
        let handle = self.pair.world.resume(node, state, Some(to)).expect("it can be resumed");
        self.went_on(end, handle);
    }

    fn wait_for_peer(&mut self, end: End, state: &Suspended, crash: bool) {
        let node = self.node(end, crash);
        let handle = self.pair.world.wait_for_peer(node, state).expect("it can be taken up");
        self.went_on(end, handle);
    }

    fn went_on(&mut self, end: End, handle: whimbrel_proto::Handle) {
        self.pair.adopt(end, handle);
        self.away = false;
        self.coverage.resumed += 1;
        self.announce();
    }

    fn node(&mut self, end: End, crash: bool) -> usize {
        let node = self.pair.node(end);
        if crash {
            self.pair.world.restart(node);
        }
        node
    }

    fn until(&mut self, done: impl FnMut(&mut Self) -> bool) {
        // An end that was not told may detect it only by silence.
        self.until_within(self.config.idle_timeout + Duration::from_secs(30), done);
        self.announce();
    }

    fn until_within(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let end = self.pair.now() + limit;
        while !done(self) {
            let events =
                End::BOTH.map(|end| self.pair.events(end).into_iter().rev().take(5).collect::<Vec<_>>());
            assert!(self.pair.now() < end, "not within {limit:?}: {events:?}");
            self.pair.run(Duration::from_millis(50));
            self.pump();
        }
    }
}
