//! Loss recovery and sending permission for a path: packets in flight, acknowledgements, losses, and when to send. It
//! does the job of RFC 9002 with RACK's rules (RFC 8985), and limits back-off so that a link that returns is used soon.

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

/// The fate of a packet. It is reported once for each item the packet carried, and once more if a loss proves spurious.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Acked,
    Lost,
}

/// How a loss was noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LossTrigger {
    /// Later packets were acknowledged.
    #[default]
    Acknowledgement,
    /// No acknowledgement came by the packet's deadline.
    Deadline,
}

/// Whether a packet may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permit {
    /// A packet of full size may be sent.
    Now,
    /// A packet of at most this many bytes may be sent, as a probe of a silent path.
    Probe(usize),
    /// No packet may be sent before this time.
    At(Time),
    /// No packet may be sent before something is acknowledged or a timer fires.
    Blocked,
}

/// The path on which a SACK arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SackPath {
    /// The path whose packets it acknowledges.
    Own,
    /// Another path.
    Other,
}

/// Packet counters of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathCounters {
    pub(crate) acked_packets: u64,
    pub(crate) acked_bytes: u64,
    pub(crate) lost_packets: u64,
    pub(crate) lost_bytes: u64,
    pub(crate) spurious_packets: u64,
    /// Packet numbers that were left out on purpose.
    pub(crate) left_out: u64,
}

/// The sending side of a path: RTT, loss, congestion, pacing and silence.
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
    counters: PathCounters,
    loss: LossShare,
    /// The recent loss when the path fell silent.
    loss_heard: LossShare,
    lost_by: LossTrigger,
    packet_size: u64,
    /// Bytes that may still be spent on second copies of the ends of flights.
    spare_bytes: u64,
}

/// Longest wait between probes of a silent path, unless the RTT is longer. Data that fits into a probe arrives with it,
/// and a larger message an RTT later. With this wait, both are within an RTT and a quarter of a second of the link's
/// return.
const LONGEST_PROBE_WAIT: Duration = Duration::from_millis(170);
/// Largest probe of a silent path, bytes. It fits any link and costs a slow one little.
const PROBE_BYTES: usize = 150;

/// Loss rate from which a second copy is worth its bytes.
const DOUBLED_LOSS: f64 = 0.005;
/// In-flight packets that make a flight, whose end is sent twice. Fewer than this are covered by repeats.
const FLIGHT: u64 = 4;
/// The second copies of the ends of flights take at most this part (1/8) of the bytes sent.
const DOUBLED_PART: u64 = 8;

/// The shortest RTT believed from a ticket. The longest is [`LONGEST_MEMORY`].
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
            counters: PathCounters::default(),
            loss: LossShare::default(),
            loss_heard: LossShare::default(),
            lost_by: LossTrigger::default(),
            packet_size: packet_size as u64,
            spare_bytes: 0,
        }
    }

    /// Frees memory that is kept for speed.
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

    /// Returns the smoothed RTT less the time that what is in flight takes to leave, and at least the lowest RTT.
    pub(crate) fn unloaded_rtt(&self) -> Duration {
        let rate = self.controller().pacing_rate().max(1);
        let leaves = Duration::from_nanos(self.in_flight().saturating_mul(1_000_000_000) / rate);
        self.rtt.smoothed().saturating_sub(leaves).max(self.rtt.min())
    }

    /// Returns how the latest losses were noticed.
    pub(crate) fn lost_by(&self) -> LossTrigger {
        self.lost_by
    }

    /// Numbers of the packets that were declared lost at this time.
    pub(crate) fn lost_at(&self, now: Time) -> Vec<u64> {
        self.sent.lost_at(now)
    }

    /// Returns how many packets were acknowledged after they counted as lost.
    pub(crate) fn spurious_packets(&self) -> u64 {
        self.counters.spurious_packets
    }

    pub(crate) fn counters(&self) -> PathCounters {
        PathCounters { left_out: self.counters.left_out + self.sent.left_out(), ..self.counters }
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        self.steered.controller()
    }

    /// Handles a change in what shares the path's bottleneck.
    pub(crate) fn on_company(&mut self, now: Time, company: Option<Company>) {
        self.steered.change(|controller| controller.on_company(now, company));
    }

    /// Sets the size of a full packet, bytes on the wire.
    pub(crate) fn set_packet_size(&mut self, bytes: u64) {
        self.packet_size = bytes;
        self.sent.set_full_size(bytes);
        self.steered.change(|controller| controller.set_packet_size(bytes));
        self.pacer.set_packet_size(bytes);
    }

    /// Returns how many full packets were acknowledged and lost since the last call.
    pub(crate) fn take_full(&mut self) -> FullFates {
        self.sent.take_full()
    }

    /// Returns the pacing rate, bytes per second.
    pub(crate) fn pacing_rate(&self) -> u64 {
        self.steered.pacing_rate()
    }

    /// Returns whether more than this share of packets was lost recently, 0 to 1.
    pub(crate) fn loses_more_than(&self, share: f64) -> bool {
        self.loss.is_above(share)
    }

    /// Returns the share of packets lost recently, 0 to 1.
    pub(crate) fn loss(&self) -> f64 {
        self.loss.share()
    }

    /// Takes an RTT measured by the handshake, before any SACK.
    pub(crate) fn on_first_rtt(&mut self, now: Time, rtt: Duration) {
        if self.rtt.is_unknown() {
            self.rtt.sample(now, rtt, Duration::ZERO);
            self.steered.change(|controller| controller.on_rtt(now, rtt));
        }
    }

    /// Assumes an RTT until one is measured.
    pub(crate) fn assume_rtt(&mut self, rtt: Duration) {
        self.rtt.assume(rtt);
    }

    /// Starts from the rate remembered of the path, and from its RTT until one is measured.
    pub(crate) fn recall(&mut self, memory: PathMemory) {
        let rtt = memory.rtt.clamp(SHORTEST_MEMORY, LONGEST_MEMORY);
        if memory.rate > 0 && !memory.rtt.is_zero() {
            self.rtt.assume(rtt);
            self.steered.change(|controller| controller.recall(Remembered { rate: memory.rate, rtt }));
        }
    }

    /// Returns what a ticket should remember of the path, if it has been measured.
    pub(crate) fn remember(&self) -> Option<PathMemory> {
        let Remembered { rate, rtt } = self.steered.controller().remember()?;
        (rate > 0 && !rtt.is_zero()).then_some(PathMemory { rate, rtt })
    }

    /// Sets the number of the first packet, because lower ones were used before. Nothing may have been sent yet.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.sent.begin_at(number);
    }

    /// Continues the packet numbers and counters of `before`. Nothing may have been sent yet.
    pub(crate) fn go_on_from(&mut self, before: &Self) {
        self.begin_at(before.next_number());
        self.counters = before.counters();
    }

    /// Returns whether three or more probes went unanswered (MMSP 3.3.4).
    pub(crate) fn is_unreachable(&self) -> bool {
        self.silence.unanswered() >= 3
    }

    /// Returns when something was last acknowledged.
    pub(crate) fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// Returns whether a packet of `size` bytes on the wire may be sent.
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

    /// Tells the pacer that the sender was woken `late` after the time at which it was to send.
    pub(crate) fn on_woken(&mut self, late: Duration) {
        self.pacer.on_woken(late, self.rtt.smoothed() / 4);
    }

    /// Records the packet that has the number [`Recovery::next_number`]. `size` counts bytes on the wire with IP and
    /// UDP headers.
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

    /// Marks the last packet as carrying lost data again, or as being a second copy.
    pub(crate) fn mark_last(&mut self, spare: Spare) {
        self.sent.mark_last(spare);
    }

    /// Chooses a packet to send a second time when there is nothing new to send, and passes its items to `tell`. On a
    /// lossy path, each loss at the end of a flight costs an RTT. The newest packet comes first, because a loss among
    /// older ones is detected before their second copies could arrive. Returns whether there is such a packet.
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

    /// Returns whether it is time for [`Recovery::leave_out`].
    pub(crate) fn wants_leaving_out(&self) -> bool {
        self.sent.wants_leaving_out()
    }

    /// Occasionally leaves out a packet number. `draw` is random and decides when the next one is left out.
    pub(crate) fn leave_out(&mut self, now: Time, draw: u64) {
        self.sent.leave_out(now, &self.rtt, draw);
    }

    /// Notes that more could have been sent than the application had.
    pub(crate) fn on_app_limited(&mut self) {
        self.sampler.on_app_limited(self.sent.in_flight());
    }

    /// Handles a SACK. Returns how many packets it newly acknowledged.
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
                // Packets that are not ack-eliciting get through to the peer again, so a probe will, too.
                self.silence.probe_at(now);
            }
            return Ok(0);
        }
        // A packet acknowledged over another path and sent before the silence may have been the last to get through.
        let stale = way == SackPath::Other
            && told.newest.zip(self.silence.since()).is_some_and(|(newest, since)| newest.sent_at < since);
        let newest = told.newest.filter(|newest| newest.is_largest && !stale);
        // A way back over another path may be shorter. It gives no RTT sample of this path, least of all its first.
        let own =
            |elapsed: &Duration| way == SackPath::Own || !self.rtt.is_unknown() && *elapsed >= self.rtt.min();
        let elapsed = newest.map(|newest| now.since(newest.sent_at));
        let sample_rtt = elapsed.filter(own);
        let delay = Duration::from_micros(sack.delay_us);
        match (sample_rtt, elapsed.map(|elapsed| elapsed.saturating_sub(delay))) {
            (Some(elapsed), _) => self.rtt.sample(now, elapsed, delay),
            // The time a report waited for a way back says nothing about the path.
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
        let lost = self.detect(now, LossTrigger::Acknowledgement, &mut tell);
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
        };
        if was_blackout {
            // An outage must not count as a loss rate, since a path that is no longer used would keep it for ever.
            self.loss = self.loss_heard;
            self.steered.change(|controller| controller.on_restart(now));
        }
        self.steered.change(|controller| controller.on_ack(&sample));
        Ok(told.packets)
    }

    /// Declares packets lost. Returns the bytes of those that count as loss: MTU probes do not.
    fn detect(&mut self, now: Time, by: LossTrigger, tell: &mut impl FnMut(Fate, &I)) -> u64 {
        let lost = self.sent.detect_lost(now, &self.rtt, |item| tell(Fate::Lost, item));
        if lost.packets > 0 {
            self.lost_by = by;
        }
        self.counters.lost_packets += lost.packets;
        self.counters.lost_bytes += lost.bytes;
        self.loss.on_lost(lost.packets - lost.probes);
        lost.bytes - lost.probe_bytes
    }

    /// Returns when [`Recovery::handle_timeout`] is due.
    pub(crate) fn timeout(&self) -> Option<Time> {
        let deadline = self.sent.next_deadline(&self.rtt);
        match (deadline, self.silence.next_probe()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Declares overdue packets lost, and grants probes on a silent path.
    pub(crate) fn handle_timeout(&mut self, now: Time, mut tell: impl FnMut(Fate, &I)) {
        let overdue = self.sent.first_overdue(now, &self.rtt);
        let loss = self.loss;
        let lost = self.detect(now, LossTrigger::Deadline, &mut tell);
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
            // Probes may follow each other before one is overdue, and the one that arrives should carry useful data.
            self.surrender(now, |item| tell(Fate::Lost, item));
        }
    }

    /// Probes a silent path at once, when the operating system reports that the link is back.
    pub(crate) fn on_link_up(&mut self, now: Time) {
        self.silence.probe_at(now);
    }

    /// Handles a change of the peer's address. Packets sent to the old one may never be answered, so a silent path is
    /// probed at once. `rtt` is the time a challenge measured at the new address. If it is below the smoothed RTT, it
    /// counts as a sample.
    pub(crate) fn on_moved(&mut self, now: Time, rtt: Option<Duration>) {
        match rtt {
            Some(rtt) if self.rtt.is_unknown() => self.on_first_rtt(now, rtt),
            Some(rtt) if rtt < self.rtt.smoothed() => self.rtt.sample(now, rtt, Duration::ZERO),
            _ => {}
        }
        self.silence.probe_at(now);
    }

    /// Returns whether nothing was heard since a packet became overdue.
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.is_silent()
    }

    /// Declares everything in flight lost, so that it can go another way. This is no congestion signal, and late
    /// acknowledgements still count.
    pub(crate) fn surrender(&mut self, now: Time, tell: impl FnMut(&I)) {
        self.sent.surrender(now, tell);
    }

    /// Gives up the path. Everything still in flight is reported as lost.
    pub(crate) fn abandon(self, tell: impl FnMut(&I)) {
        self.sent.abandon(tell);
    }

    fn serialisation(&self) -> Duration {
        let rate = self.steered.pacing_rate().max(1);
        Duration::from_nanos((PROBE_BYTES as u64 + 48) * 1_000_000_000 / rate)
    }
}

/// The loss over roughly the last few hundred packets, as two counts that are halved together.
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

    /// Compares without a division, since it is called for each packet.
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

    /// Returns a path with an assumed RTT of 5 s that is silent, since a packet and two probes were not answered.
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
    fn regression_a_lost_mtu_probe_is_no_loss_of_the_path() {
        for (size, share) in [(1452, 0.0), (1200, 0.2)] {
            let mut recovery = Recovery::new(Time::ZERO, Congestion::default(), 1200);
            recovery.on_first_rtt(Time::ZERO, 20 * MS);
            for size in [1200, size, 1200, 1200, 1200] {
                recovery.on_sent(Time::ZERO + MS, size, true, &[()]);
            }
            let mut sack = acked(0);
            sack.ranges = [0..=0, 2..=4].into();
            let mut lost = 0;
            let at = Time::ZERO + 21 * MS;
            let told =
                recovery.on_sack(at, &sack, SackPath::Own, |fate, ()| lost += u64::from(fate == Fate::Lost));
            assert_eq!(told, Ok(4));
            recovery.handle_timeout(at + 100 * MS, |fate, ()| lost += u64::from(fate == Fate::Lost));
            assert_eq!((lost, recovery.loss()), (1, share), "a packet of {size} bytes");
        }
    }

    #[test]
    fn a_silent_path_is_probed_at_once_when_its_peer_has_moved() {
        let (mut recovery, now) = silent();
        recovery.on_moved(now, Some(20 * MS));
        assert!(matches!(recovery.permit(now, 1200), Permit::Probe(_)));
        assert!(recovery.rtt.smoothed() < 3000 * MS, "what the challenge measured counts");
    }
}
