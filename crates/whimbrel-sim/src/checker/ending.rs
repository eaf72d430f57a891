//! The ways in which a run ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use whimbrel_proto::congestion::Congestion;
use whimbrel_proto::session::TagSettings;
use whimbrel_proto::{CloseReason, Event, SuspendMode, Tag, Time};

use super::draft::Draft;
use super::operation::{DEAR, Finale};
use super::run::Run;
use super::special::Special;
use crate::pair::End;

/// The longest time until everything is at rest, whatever happened before. It limits every stall.
const REST: Duration = Duration::from_secs(15);

impl Run {
    pub(super) fn finale(&mut self, finale: Finale) {
        self.calm();
        let mut heard: BTreeSet<End> = End::BOTH.into();
        match finale {
            Finale::Rest => {
                self.rest();
                self.count();
                let discarded = self.discarded();
                self.model.check(true, &heard, &discarded);
                self.over = true;
                self.pair.close(End::Client, 5, "rest");
                self.end(Duration::from_secs(2), |run| {
                    let reasons = End::BOTH.map(|end| run.pair.closed(end));
                    let [Some(CloseReason::Local), Some(CloseReason::Peer(reason))] = reasons else {
                        panic!("a polite close ends otherwise: {reasons:?}")
                    };
                    assert_eq!((reason.code, reason.text.raw()), (5, "rest"));
                });
                return;
            }
            Finale::Close(_) | Finale::Cross => {
                self.ease();
                self.over = true;
                for end in End::BOTH {
                    if finale == Finale::Cross || finale == Finale::Close(end) {
                        self.pair.close(end, 6, "close");
                    }
                }
                let begin = self.pair.now();
                self.end(self.config.close_timeout + Duration::from_secs(5), |_| {});
                // A graceful close delivers what was queued, unless `close_timeout` ran out.
                let ends = End::BOTH.map(|end| self.pair.timed_events(end).last().map(|(at, _)| *at));
                let in_time = begin + self.config.close_timeout;
                let discarded = self.discarded();
                self.model.check(ends.iter().all(|at| at.is_some_and(|at| at < in_time)), &heard, &discarded);
                return;
            }
            Finale::CloseMoving { end, moves } => {
                self.ease();
                self.over = true;
                self.coverage.special(Special::RebindClosing);
                self.pair.close(end, 6, "close");
                let node = self.pair.node(moves);
                self.pair.world.rebind(node);
                // An end that does not know the other's address may detect the close only by silence.
                self.end(self.patience(), |_| {});
            }
            Finale::CloseResuming { away, apart, first } => {
                self.close_resuming(away, apart, first);
            }
            Finale::Abort(end) => {
                self.over = true;
                let now = self.pair.now();
                self.pair.connection(end).abort(now, 8, "abort");
                // If the last packet is lost and the peer has nothing to send, only silence tells.
                self.end(self.patience(), |_| {});
            }
            Finale::Kill(end) => {
                // Nothing arrives after what is read now.
                self.over = true;
                heard.remove(&end);
                let (node, _) = self.pair.place(end).expect("it is there");
                self.count();
                self.pair.world.kill(node);
                self.end(self.patience(), |run| {
                    let why = run.pair.closed(end.other());
                    assert_eq!(why, Some(CloseReason::TimedOut));
                });
            }
            Finale::Restart => {
                self.over = true;
                heard.remove(&End::Server);
                self.pair.world.restart_server();
                self.restore_networks();
                // A client has no reset token of a connection that the server opened.
                let soon = self.config.keep_alive.unwrap_or_default() + Duration::from_secs(5);
                let limit = if self.coverage.resumed > 0 { self.patience() } else { soon };
                self.end(limit, |run| {
                    let why = run.pair.closed(End::Client);
                    assert_eq!(why, Some(CloseReason::PeerRestarted));
                });
            }
        }
        let discarded = self.discarded();
        // Debts and requests of the vanished end do not count.
        if heard.len() == End::BOTH.len() {
            self.model.check(false, &heard, &discarded);
        }
    }

    /// One end resumes from its state while the other closes.
    fn close_resuming(&mut self, away: End, apart: Duration, first: bool) {
        self.ease();
        self.proven();
        let Some(state) = self.suspend(away, SuspendMode::Snapshot) else { return self.finale(Finale::Rest) };
        self.coverage.special(Special::CloseResuming);
        self.pass(Duration::from_millis(200));
        self.over = true;
        if first {
            self.pair.close(away.other(), 9, "meanwhile");
            self.pass(apart);
        }
        self.take_up(away, &state, false);
        if !first {
            self.pass(apart);
            self.pair.close(away.other(), 9, "meanwhile");
        }
        self.end(self.patience(), |run| {
            let why = run.pair.closed(away.other());
            assert_eq!(why, Some(CloseReason::Local), "it closed");
            let why = run.pair.closed(away);
            // An end that closes while it waits for its peer ends at once. If it is the client, it then does not
            // answer a peer that dials.
            let told = match &why {
                Some(CloseReason::Peer(reason)) => reason.code == 9,
                Some(CloseReason::ResumeExpired | CloseReason::UnknownSession) => true,
                Some(CloseReason::TimedOut) => away == End::Server,
                _ => false,
            };
            assert!(told, "its peer closed: {why:?}");
        });
    }

    /// The longest time that a session may last after its peer went silent.
    fn patience(&self) -> Duration {
        self.config.idle_timeout + self.config.reattach.unwrap_or_default() + Duration::from_secs(5)
    }

    /// Makes the links good, lets everyone read, and lifts all limits and costs.
    fn ease(&mut self) {
        self.make_way();
        let now = self.pair.now();
        for (from, stream, tag) in self.model.tags() {
            let settings = TagSettings::default();
            self.pair.session(from).tag_settings(now, stream, Tag(tag), settings).expect("it exists");
            self.model.on_settings(from, stream, tag, settings);
        }
        for end in End::BOTH {
            self.read_all(end);
        }
        // After a NAT rebinding, only a packet from the client shows the server its new address.
        self.send(End::Client, &Draft::plain(100));
    }

    /// Makes the links good, and none too expensive.
    pub(super) fn make_way(&mut self) {
        self.values.values_mut().flatten().for_each(|(cost, _)| *cost = (*cost).min(DEAR));
        self.restore_networks();
    }

    fn read_all(&mut self, end: End) {
        let desk = self.desk(end);
        desk.most = 100_000;
        desk.stalled.clear();
    }

    /// The time that a fixed rate needs for what has not arrived, with headers and repetitions.
    fn flushing(&mut self) -> Duration {
        let Congestion::Fixed { bytes_per_s } = self.config.congestion else { return Duration::ZERO };
        Duration::from_secs(self.model.undelivered() * 5 / 4 / bytes_per_s)
    }

    /// Runs until everything is at rest.
    fn rest(&mut self) {
        self.ease();
        let until = self.pair.now() + REST + self.flushing();
        while !self.is_at_rest() {
            assert!(self.pair.now() < until, "stalled: {:?} {:?}", self.state(), self.model.unquiet());
            self.pair.run(Duration::from_millis(20));
            self.pump();
        }
        let [client, server] = End::BOTH.map(|end| self.pair.session(end).credit_used());
        assert_eq!((client.0, server.0), (server.1, client.1), "both ends agree on credit");
    }

    /// A short description of the state, for an error message.
    pub(super) fn state(&mut self) -> Vec<String> {
        let words = End::BOTH.map(|end| {
            let (session, now) = (self.pair.session(end).stats(), self.pair.now());
            let stats = self.pair.connection(end).stats(now);
            let path = stats.paths[0];
            format!(
                "{end:?}: dropped {:?}, keys {}, {} sent in {} packets, {} lost, {} queued, {} outstanding, {} unread, in flight {}, silent {:?}, {:?}",
                stats.dropped,
                stats.key_updates,
                session.total.sent_bytes,
                path.sent_packets,
                path.lost_packets,
                session.queue_messages,
                session.outstanding,
                session.unread,
                path.in_flight,
                stats.silent_for,
                path.congestion
            )
        });
        words.into()
    }

    fn is_at_rest(&mut self) -> bool {
        self.model.open() == 0
            && self.model.streams_are_quiet()
            && End::BOTH.into_iter().all(|end| {
                let connection = self.pair.connection(end);
                let idle = connection.is_idle();
                let session = connection.session();
                idle && !session.wants_to_send() && session.is_drained() && session.stats().unread == 0
            })
    }

    /// Closes an end that waits for a peer that has timed out and does not come back. It may have heard of an earlier
    /// suspension only when the peer was on its way back, and moved before the peer could reach it. It would wait for as
    /// long as it may, which is for its application to decide.
    fn end_vain_waits(&mut self) {
        for end in End::BOTH {
            if self.pair.closed(end.other()) == Some(CloseReason::TimedOut)
                && self.pair.try_connection(end).is_some_and(|connection| connection.is_waiting())
            {
                let now = self.pair.now();
                self.pair.connection(end).close(now, 0, "");
            }
        }
    }

    fn discarded(&mut self) -> BTreeMap<End, u64> {
        let ends = End::BOTH.into_iter();
        ends.filter_map(|end| Some((end, self.pair.try_connection(end)?.session_ref().stats().discarded)))
            .collect()
    }

    /// Checks that both ends (or those that are left) close within `limit`, report that once and last, and free
    /// everything.
    fn end(&mut self, limit: Duration, check: impl FnOnce(&mut Self)) {
        for end in End::BOTH {
            self.read_all(end);
        }
        let begin = self.pair.now();
        let mut left = Vec::new();
        for end in End::BOTH {
            if self.pair.try_connection(end).is_some() {
                left.push(end);
            }
        }
        while !left.iter().all(|end| self.pair.closed(*end).is_some()) {
            if self.pair.now() >= begin + limit {
                let events = End::BOTH
                    .map(|end| self.pair.timed_events(end).into_iter().rev().take(4).collect::<Vec<_>>());
                let state = if left.len() == End::BOTH.len() { self.state() } else { Vec::new() };
                panic!("no end after {limit:?}: {state:?} {events:?}");
            }
            self.pair.run(Duration::from_millis(100));
            self.pump();
            self.end_vain_waits();
        }
        self.pump();
        self.count();
        check(self);
        let drained = |time: Time| time + Duration::from_secs(20);
        let until = drained(self.pair.now());
        while self.pair.now() < until {
            self.pair.run(Duration::from_secs(1));
        }
        for end in left {
            let events = self.pair.events(end);
            let ends = events.iter().filter(|event| matches!(event, Event::Closed(_))).count();
            assert_eq!(ends, 1, "{end:?}: {events:?}");
            assert!(matches!(events.last(), Some(Event::Closed(_))), "Closed is last: {events:?}");
            let node = self.pair.node(end);
            let connections = self.pair.world.endpoint(node).connections();
            assert_eq!(connections, 0, "{end:?} still holds ids");
            let credit = self.pair.world.endpoint(node).budgets().credit.used();
            assert_eq!(credit, 0, "{end:?} still holds credit of its endpoint");
        }
    }
}
