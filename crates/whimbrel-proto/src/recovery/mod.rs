//! What a path has in flight, what arrived, what is lost, and when to send: RFC 9002's job, with RACK's rules (RFC 8985)
//! and back-off that is ready when the link returns.

mod received;
mod rtt;
mod sent;
mod silence;
mod steered;

use std::time::Duration;

pub use received::Ecn;
pub(crate) use received::{AckPace, Received};
pub(crate) use rtt::Rtt;
pub(crate) use sent::{CIPHER_BLOCK, FullFates, SentPackets, Spare};
use silence::Silence;
use steered::Steered;

use crate::congestion::{AckSample, Company, Congestion, Controller, Pacer, RateSampler, Remembered};
use crate::crypto::PathMemory;
use crate::wire::sack::Sack;
use crate::{Cause, PeerMisbehaved, Time};

/// What became of a packet, told once for each thing it carried (and once more if a loss proves spurious).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Acked,
    Lost,
}

/// May a packet be sent?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// Yes, of full size.
    Now,
    /// Yes, as a probe of a silent path: at most this many bytes.
    Probe(usize),
    /// Not before then.
    At(Time),
    /// Not before something is acknowledged or a timer fires.
    Blocked,
}

/// How a SACK came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SackPath {
    /// On the path it speaks of.
    Own,
    /// On another.
    Other,
}

/// Counts of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) acked_packets: u64,
    pub(crate) acked_bytes: u64,
    pub(crate) lost_packets: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) spurious_packets: u64,
    /// Numbers that no packet has.
    pub(crate) left_out: u64,
}

/// Sending side of one path: round trips, loss, congestion, pacing, silence.
#[derive(Debug)]
pub(crate) struct Recovery<I> {
    pub(crate) rtt: Rtt,
    sent: SentPackets<I>,
    steered: Steered,
    sampler: RateSampler,
    pacer: Pacer,
    silence: Silence,
    last_heard: Time,
    ce: u64,
    counters: Counters,
    loss: LossShare,
    /// As it was when the path fell silent.
    loss_heard: LossShare,
    packet_size: u64,
    /// That may yet go into doubles of the ends of flights.
    spare_bytes: u64,
}

/// Probes of a silent path are no further apart than this, or a round trip where that is longer. What a probe has room for is delivered at
/// once, a larger message a round trip later: with this both are within a round trip and a quarter second of the link's return.
const LONGEST_PROBE_WAIT: Duration = Duration::from_millis(170);
/// A probe of a silent path is at most this long: it fits any link and costs a slow one little.
const PROBE_BYTES: usize = 150;

/// Loss from which a second copy is worth its bytes.
const DOUBLED_LOSS: f64 = 0.005;
/// So many packets in flight are a flight, whose end is doubled; fewer are small talk, which repeats care for.
const FLIGHT: u64 = 4;
/// The ends of flights that are doubled are at most this part of all that is sent.
const DOUBLED_PART: u64 = 8;

/// A ticket's round trip is believed within these.
const SHORTEST_MEMORY: Duration = Duration::from_millis(1);
const LONGEST_MEMORY: Duration = Duration::from_secs(5);

impl<I: Copy> Recovery<I> {
    pub(crate) fn new(now: Time, congestion: Congestion, packet_size: usize) -> Self {
        Self {
            rtt: Rtt::default(),
            sent: SentPackets::new(packet_size as u64),
            steered: Steered::new(congestion.build(packet_size as u64, now)),
            sampler: RateSampler::new(),
            pacer: Pacer::new(packet_size as u64),
            silence: Silence::default(),
            last_heard: now,
            ce: 0,
            counters: Counters::default(),
            loss: LossShare::default(),
            loss_heard: LossShare::default(),
            packet_size: packet_size as u64,
            spare_bytes: 0,
        }
    }

    /// Gives back memory kept for speed.
    pub(crate) fn trim(&mut self) {
        self.sent.shrink();
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.sent.next_number()
    }

    pub(crate) fn largest_acked(&self) -> Option<u64> {
        self.sent.largest_acked()
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.sent.in_flight()
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters { left_out: self.counters.left_out + self.sent.left_out(), ..self.counters }
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        self.steered.controller()
    }

    /// What shares the path's bottleneck changed.
    pub(crate) fn on_company(&mut self, now: Time, company: Option<Company>) {
        self.steered.change(|controller| controller.on_company(now, company));
    }

    /// Full packets are `bytes` on the wire from now on.
    pub(crate) fn set_packet_size(&mut self, bytes: u64) {
        self.packet_size = bytes;
        self.sent.set_full_size(bytes);
        self.steered.change(|controller| controller.set_packet_size(bytes));
        self.pacer.set_packet_size(bytes);
    }

    /// What became of full packets since the last call.
    pub(crate) fn take_full(&mut self) -> FullFates {
        self.sent.take_full()
    }

    /// Bytes a second at which packets leave.
    pub(crate) fn pacing_rate(&self) -> u64 {
        self.steered.pacing_rate()
    }

    /// More than this share of packets was lost lately, 0 to 1.
    pub(crate) fn loses_more_than(&self, share: f64) -> bool {
        self.loss.is_above(share)
    }

    /// Share of packets lost lately, 0 to 1.
    pub(crate) fn loss(&self) -> f64 {
        self.loss.share()
    }

    /// A round trip measured by the handshake, before any SACK.
    pub(crate) fn on_first_rtt(&mut self, now: Time, rtt: Duration) {
        if self.rtt.is_unknown() {
            self.rtt.sample(now, rtt, Duration::ZERO);
            self.steered.change(|controller| controller.on_rtt(now, rtt));
        }
    }

    /// Starts from what is remembered of the path: its rate, and its round trip until one is measured.
    pub(crate) fn recall(&mut self, memory: PathMemory) {
        let rtt = memory.rtt.clamp(SHORTEST_MEMORY, LONGEST_MEMORY);
        if memory.rate > 0 && !memory.rtt.is_zero() {
            self.rtt.assume(rtt);
            self.steered.change(|controller| controller.recall(Remembered { rate: memory.rate, rtt }));
        }
    }

    /// What a ticket should remember of the path, if it has been measured.
    pub(crate) fn remember(&self) -> Option<PathMemory> {
        let Remembered { rate, rtt } = self.steered.controller().remember()?;
        (rate > 0 && !rtt.is_zero()).then_some(PathMemory { rate, rtt })
    }

    /// The first packet to be sent has this number: lower ones were used before. Nothing has been sent yet.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.sent.begin_at(number);
    }

    /// The path's numbers and counts go on from `before`. Nothing has been sent yet.
    pub(crate) fn go_on_from(&mut self, before: &Self) {
        self.begin_at(before.next_number());
        self.counters = before.counters();
    }

    /// Three probes or more went unanswered (MMSP 3.3.4).
    pub(crate) fn is_unreachable(&self) -> bool {
        self.silence.unanswered() >= 3
    }

    /// When something was last acknowledged.
    pub(crate) fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// May a packet of `size` wire bytes be sent?
    pub(crate) fn permit(&self, now: Time, size: u64) -> Permit {
        if self.silence.is_silent() {
            return match self.silence.probe_credit() {
                0 => Permit::Blocked,
                _ if self.silence.unanswered() <= 2 => Permit::Probe(usize::MAX),
                _ => Permit::Probe(PROBE_BYTES),
            };
        }
        if self.sent.in_flight() + size > self.steered.window() {
            return Permit::Blocked;
        }
        match self.pacer.ready_at(now, size) {
            at if at <= now => Permit::Now,
            at => Permit::At(at),
        }
    }

    /// The sender was to send at a time that is `late` ago, and was not woken before.
    pub(crate) fn on_woken(&mut self, late: Duration) {
        self.pacer.on_woken(late, self.rtt.smoothed() / 4);
    }

    /// Records the packet that was given [`Recovery::next_number`]: `size` on the wire with IP and UDP headers.
    pub(crate) fn on_sent(&mut self, now: Time, size: u64, eliciting: bool, items: &[I]) {
        if !eliciting {
            self.sent.push_untracked(now, &self.rtt);
            return;
        }
        let before = self.sent.in_flight();
        let snapshot = self.sampler.on_sent(now, before, size);
        self.steered.on_sent(now, size, before);
        self.pacer.on_sent(now, size, self.steered.pacing_rate());
        self.silence.on_sent();
        self.spare_bytes = (self.spare_bytes + size / DOUBLED_PART).min(self.steered.window());
        self.sent.push(now, size, snapshot, items);
    }

    /// The packet sent last holds what was lost before, or is itself a double.
    pub(crate) fn mark_last(&mut self, spare: Spare) {
        self.sent.mark_last(spare);
    }

    /// There is nothing new to send: tells what should go out a second time, since on a path that loses packets each loss in the end of
    /// a flight costs a round trip. The newest packet comes first: the older ones, if lost, will be missed before their doubles arrived.
    pub(crate) fn double(&mut self, now: Time, tell: impl FnMut(&I)) -> bool {
        if self.loss() < DOUBLED_LOSS || self.silence.is_silent() {
            return false;
        }
        let flight =
            self.sent.in_flight() >= FLIGHT * self.packet_size && self.spare_bytes >= self.packet_size;
        let Some((spare, size)) =
            self.sent.double(now.saturating_sub(self.rtt.smoothed() * 3 / 4), flight, tell)
        else {
            return false;
        };
        if spare == Spare::New {
            self.spare_bytes = self.spare_bytes.saturating_sub(size);
        }
        true
    }

    /// It is time for [`Recovery::leave_out`].
    pub(crate) fn wants_leaving_out(&self) -> bool {
        self.sent.wants_leaving_out()
    }

    /// Leaves a packet number out now and then: `draw` says when next.
    pub(crate) fn leave_out(&mut self, now: Time, draw: u64) {
        self.sent.leave_out(now, &self.rtt, draw);
    }

    /// There was room for more than the application had.
    pub(crate) fn on_app_limited(&mut self) {
        self.sampler.on_app_limited(self.sent.in_flight());
    }

    /// Takes a SACK. Returns how many packets it newly acknowledged.
    pub(crate) fn on_sack(
        &mut self,
        now: Time,
        sack: &Sack,
        way: SackPath,
        mut tell: impl FnMut(Fate, &I),
    ) -> Result<u64, PeerMisbehaved> {
        if sack.largest() >= self.sent.next_number() {
            return Err(PeerMisbehaved::new(
                Cause::AckOfUnsent,
                "a packet that was never sent was acknowledged",
            ));
        }
        if self.sent.is_made_up(sack) {
            return Err(PeerMisbehaved::new(
                Cause::AckOfUnsent,
                "a packet was acknowledged whose number was left out",
            ));
        }
        let prior = self.sent.in_flight();
        let further = self.sent.is_further(sack);
        let sampler = &mut self.sampler;
        let told = self.sent.on_sack(
            sack,
            |packet| sampler.on_acked(now, packet.sent_at, packet.size, &packet.snapshot),
            |item| tell(Fate::Acked, item),
        );
        if told.packets == 0 {
            if further {
                // Packets that ask for no answer arrive there again: a probe will, too.
                self.silence.probe_at(now);
            }
            return Ok(0);
        }
        // What left before the path fell silent and is acknowledged another way may have been the last to get through.
        let stale = way == SackPath::Other
            && told.newest.zip(self.silence.since()).is_some_and(|(newest, since)| newest.sent_at < since);
        let newest = told.newest.filter(|newest| newest.is_largest && !stale);
        // Another way back may be shorter: that is no round trip of this path, least of all its first.
        let own =
            |elapsed: &Duration| way == SackPath::Own || !self.rtt.is_unknown() && *elapsed >= self.rtt.min();
        let elapsed = newest.map(|newest| now.since(newest.sent_at));
        let sample_rtt = elapsed.filter(own);
        let delay = Duration::from_micros(sack.delay_us);
        match (sample_rtt, elapsed.map(|elapsed| elapsed.saturating_sub(delay))) {
            (Some(elapsed), _) => self.rtt.sample(now, elapsed, delay),
            // Where the report waited for a way back the time it waited says nothing of the path.
            (None, Some(net)) if net > self.rtt.smoothed() => self.rtt.assume(net),
            _ => {}
        }
        self.last_heard = now;
        self.counters.acked_packets += told.packets;
        self.counters.acked_bytes += told.bytes;
        self.counters.spurious_packets += told.spurious_packets;
        self.loss.on_acked(told.packets);
        self.rtt.relax(now);
        let was_blackout = !stale && self.silence.on_heard();
        if told.spurious_bytes > 0 {
            if told.early_deadline {
                self.rtt.on_early_deadline(now);
            }
            self.steered.change(|controller| controller.on_spurious_loss(now, told.spurious_bytes));
        }
        let lost = self.detect(now, &mut tell);
        if lost > 0 {
            let in_flight = self.sent.in_flight();
            self.steered.change(|controller| controller.on_loss(now, lost, in_flight, false));
        }
        let newly_ce = sack.ecn.map_or(0, |ecn| ecn.ce.saturating_sub(self.ce));
        self.ce += newly_ce;
        let sample = AckSample {
            now,
            acked: told.bytes,
            lost,
            in_flight: self.sent.in_flight(),
            prior_in_flight: prior,
            rtt: sample_rtt.map(|_| self.rtt.latest()),
            srtt: self.rtt.smoothed(),
            min_rtt: self.rtt.min(),
            rate: self.sampler.finish(now),
            largest_sent_at: told.newest.map_or(Time::ZERO, |newest| newest.sent_at),
            ecn_ce: newly_ce,
            app_limited: false,
        };
        if was_blackout {
            // An outage is no rate of loss: a path that is used no more would keep it for ever.
            self.loss = self.loss_heard;
            self.steered.change(|controller| controller.on_restart(now));
        }
        self.steered.change(|controller| controller.on_ack(&sample));
        Ok(told.packets)
    }

    fn detect(&mut self, now: Time, tell: &mut impl FnMut(Fate, &I)) -> u64 {
        let (packets, bytes) = self.sent.detect_lost(now, &self.rtt, |item| tell(Fate::Lost, item));
        self.counters.lost_packets += packets;
        self.counters.lost_bytes += bytes;
        self.loss.on_lost(packets);
        bytes
    }

    /// When [`Recovery::handle_timeout`] is due.
    pub(crate) fn timeout(&self) -> Option<Time> {
        let deadline = self.sent.next_deadline(&self.rtt);
        match (deadline, self.silence.next_probe()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Declares lost what is overdue, and grants probes on a silent path.
    pub(crate) fn handle_timeout(&mut self, now: Time, mut tell: impl FnMut(Fate, &I)) {
        let overdue = self.sent.first_overdue(now, &self.rtt);
        let loss = self.loss;
        let lost = self.detect(now, &mut tell);
        if let Some(sent_at) = overdue
            && self.last_heard < sent_at
        {
            if !self.silence.is_silent() {
                self.loss_heard = loss;
            }
            self.silence.on_overdue(now, self.rtt.deadline());
        }
        if lost > 0 {
            let blackout = self.silence.is_blackout();
            let in_flight = self.sent.in_flight();
            self.steered.change(|controller| controller.on_loss(now, lost, in_flight, blackout));
        }
        let serialisations = self.serialisation() * 8;
        let cap = LONGEST_PROBE_WAIT.max(self.rtt.smoothed()).max(serialisations);
        let granted = self.silence.handle_timeout(now, self.rtt.deadline(), cap);
        if granted && self.silence.is_blackout() {
            // Probes may follow each other sooner than one is overdue: the one that arrives should have brought something.
            self.surrender(now, |item| tell(Fate::Lost, item));
        }
    }

    /// The operating system says the link is back: probe at once.
    pub(crate) fn on_link_up(&mut self, now: Time) {
        self.silence.probe_at(now);
    }

    /// The peer is at another address. What went to the old one may never be answered, so a silent path is probed at once; `rtt` is what a
    /// challenge measured there, and less than the mean ends what made the mean.
    pub(crate) fn on_moved(&mut self, now: Time, rtt: Option<Duration>) {
        match rtt {
            Some(rtt) if self.rtt.is_unknown() => self.on_first_rtt(now, rtt),
            Some(rtt) if rtt < self.rtt.smoothed() => self.rtt.sample(now, rtt, Duration::ZERO),
            _ => {}
        }
        self.silence.probe_at(now);
    }

    /// Nothing was heard since a packet became overdue.
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.is_silent()
    }

    /// What is in flight is told to be lost, to go another way. It says nothing of congestion; what arrives after all is noticed.
    pub(crate) fn surrender(&mut self, now: Time, tell: impl FnMut(&I)) {
        self.sent.surrender(now, tell);
    }

    /// Gives the path up: what is still in flight is told to be lost.
    pub(crate) fn abandon(self, tell: impl FnMut(&I)) {
        self.sent.abandon(tell);
    }

    fn serialisation(&self) -> Duration {
        let rate = self.steered.pacing_rate().max(1);
        Duration::from_nanos((PROBE_BYTES as u64 + 48) * 1_000_000_000 / rate)
    }
}

/// Loss over about the last few hundred packets: two counts that are halved together.
#[derive(Clone, Copy, Debug, Default)]
struct LossShare {
    acked: u64,
    lost: u64,
}

impl LossShare {
    const MEMORY: u64 = 512;

    fn on_acked(&mut self, packets: u64) {
        self.acked += packets;
        if self.acked + self.lost > Self::MEMORY {
            self.acked /= 2;
            self.lost /= 2;
        }
    }

    fn on_lost(&mut self, packets: u64) {
        self.lost += packets;
    }

    /// Without a division: asked for each packet.
    fn is_above(&self, share: f64) -> bool {
        self.lost as f64 > share * (self.acked + self.lost) as f64
    }

    fn share(&self) -> f64 {
        self.lost as f64 / (self.acked + self.lost).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn acked(number: u64) -> Sack {
        Sack { ranges: [number..=number].into(), ..Sack::default() }
    }

    /// A path whose round trip is believed to be 5 s, silent since a packet and two probes were not answered.
    fn silent() -> (Recovery<()>, Time) {
        let mut recovery = Recovery::new(Time::ZERO, Congestion::default(), 1200);
        recovery.on_first_rtt(Time::ZERO, 5000 * MS);
        recovery.on_sent(Time::ZERO + MS, 1200, true, &[()]);
        let now = Time::ZERO + recovery.rtt.deadline() + 2 * MS;
        recovery.handle_timeout(now, |_, ()| {});
        for _ in 0..2 {
            assert!(matches!(recovery.permit(now, 1200), Permit::Probe(_)));
            recovery.on_sent(now, 100, true, &[()]);
        }
        assert!(
            matches!(recovery.permit(now + 100 * MS, 1200), Permit::Blocked),
            "until a deadline has passed"
        );
        (recovery, now + 100 * MS)
    }

    #[test]
    fn a_silent_path_is_probed_at_once_when_what_asks_for_no_answer_arrives() {
        let (mut recovery, now) = silent();
        recovery.on_sent(now, 100, false, &[]);
        let number = recovery.next_number() - 1;
        assert_eq!(recovery.on_sack(now + MS, &acked(number), SackPath::Own, |_, ()| {}), Ok(0));
        assert!(matches!(recovery.permit(now + MS, 1200), Permit::Probe(_)));
        recovery.on_sent(now + MS, 100, true, &[()]);
        recovery.on_sent(now + MS, 100, true, &[()]);
        assert!(matches!(recovery.permit(now + 2 * MS, 1200), Permit::Blocked));
        assert_eq!(recovery.on_sack(now + 2 * MS, &acked(number), SackPath::Own, |_, ()| {}), Ok(0));
        assert!(
            matches!(recovery.permit(now + 2 * MS, 1200), Permit::Blocked),
            "the same report shows nothing more"
        );
    }

    #[test]
    fn a_silent_path_is_probed_at_once_when_its_peer_has_moved() {
        let (mut recovery, now) = silent();
        recovery.on_moved(now, Some(20 * MS));
        assert!(matches!(recovery.permit(now, 1200), Permit::Probe(_)));
        assert!(recovery.rtt.smoothed() < 3000 * MS, "what the challenge measured counts");
    }
}
