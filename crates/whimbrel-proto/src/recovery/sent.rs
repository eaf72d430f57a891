//! Packets sent and not forgotten, in a ring indexed by packet number, with the items they carried in a ring beside it.

use std::collections::VecDeque;
use std::time::Duration;

use super::Rtt;
use crate::Time;
use crate::congestion::Snapshot;
use crate::wire::sack::Sack;

/// Packet reordering threshold (RFC 9002 6.1.1). As long as no reordering was seen, a packet is lost once one sent this
/// many later is acknowledged.
const REORDER_PACKETS: u64 = 3;
/// How long a spurious loss can be recognised, in RTTs.
const REMEMBER_ROUNDS: u32 = 3;
const REMEMBER_AT_LEAST: Duration = Duration::from_millis(25);
/// Most packets kept through a silence.
const MOST_KEPT: usize = 1024;
/// Packets without a spurious loss after which the tolerance for reordering shrinks again.
const TOLERANCE_DECAY: u64 = 4096;

/// Bytes in a cipher block.
pub(crate) const CIPHER_BLOCK: u64 = 16;

/// Most packets searched for one that is worth a second copy.
const MOST_LOOKED_AT: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) sent_at: Time,
    pub(super) snapshot: Snapshot,
    pub(super) size: u64,
    items: u32,
    state: PacketState,
    spare: Spare,
}

impl Sent {
    /// Returns whether the packet probes for a larger size than the path is known to allow.
    fn is_mtu_probe(&self, full_size: u64) -> bool {
        self.size > full_size
    }

    /// Returns whether the packet is as long as the path allows, or ended at a whole block of the cipher. Longer
    /// packets do not count, because they probe for a larger size.
    fn is_full(&self, full_size: u64) -> bool {
        self.size <= full_size && self.size + CIPHER_BLOCK > full_size
    }
}

/// Counts of packets that were declared lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeclaredLost {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// The MTU probes among them. Their loss says nothing of congestion (RFC 9000 section 14.4), nor of what other packets meet.
    pub(super) probes: u64,
    pub(super) probe_bytes: u64,
}

impl DeclaredLost {
    fn count(&mut self, packet: &Sent, full_size: u64) {
        self.packets += 1;
        self.bytes += packet.size;
        if packet.is_mtu_probe(full_size) {
            self.probes += 1;
            self.probe_bytes += packet.size;
        }
    }
}

/// Whether a packet is worth a second copy when there is nothing else to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    /// It carries data sent for the first time, and is worth a copy as part of a flight.
    New,
    /// It carries data that was lost before.
    Again,
    /// It has a second copy, or is one.
    Doubled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketState {
    Outstanding,
    Lost {
        at: Time,
        /// It was given up at its deadline, not because later packets were acknowledged first.
        overdue: bool,
    },
    /// Acknowledged, or not ack-eliciting.
    Settled,
}

/// The packet sent last among those newly acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    pub(super) sent_at: Time,
    /// Whether it is also the SACK's largest, so that the delay field applies to it.
    pub(super) is_largest: bool,
}

/// The packets that one SACK newly acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acknowledged {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) spurious_packets: u64,
    pub(super) spurious_bytes: u64,
    /// Whether any of the spurious losses had been declared at a deadline.
    pub(super) early_deadline: bool,
    /// Whether any of the spurious losses had been declared because later packets were acknowledged first.
    pub(super) reordered: bool,
    pub(super) newest: Option<Newest>,
}

/// How many packets of full size were acknowledged and lost, to see whether the path still carries them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FullFates {
    pub(crate) acked: u64,
    pub(crate) lost: u64,
}

/// Packet numbers that are left out now and then. A peer that acknowledges one claims to have received what was never
/// sent, in order to be sent more than the path carries (RFC 9000 21.4).
#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
    /// The number to be left out next. Before the first draw, the number at which to draw.
    next: u64,
    last: Option<u64>,
    count: u32,
    drawn: bool,
}

impl LeftOut {
    /// Numbers among which the first is chosen.
    const NEAREST: u64 = 32;
    /// The range doubles with each choice up to this many numbers: numbers are left out soon in a short connection, and
    /// rarely in a long one.
    const FARTHEST: u64 = 4096;

    /// Handles `number` being next, and chooses another. Returns whether `number` is left out.
    fn on_reached(&mut self, number: u64, draw: u64) -> bool {
        let leaves = self.drawn;
        if leaves {
            self.last = Some(number);
            self.count = self.count.saturating_add(1);
        }
        self.drawn = true;
        let among = (Self::NEAREST << self.count.min(16)).min(Self::FARTHEST);
        self.next = number + among / 4 + draw % among;
        leaves
    }
}

/// The packets sent on a path and not forgotten.
#[derive(Debug)]
pub(crate) struct SentPackets<I> {
    packets: VecDeque<Sent>,
    items: VecDeque<I>,
    /// Number of `packets[0]`.
    first: u64,
    /// No packet below this number is outstanding.
    scan_from: u64,
    largest_acked: Option<u64>,
    /// When the latest-sent acknowledged packet was sent (RACK's `xmit_ts`).
    newest_sent_at: Time,
    in_flight: u64,
    /// RACK's reordering window, in quarters of the minimum RTT. 0 until reordering was seen.
    tolerance: u32,
    tolerance_until: u64,
    /// The next number and the `flight` argument of the last search that found no packet worth a second copy.
    barren: (u64, bool),
    left_out: LeftOut,
    full_size: u64,
    full: FullFates,
}

impl<I> SentPackets<I> {
    /// Creates an empty record. Full packets have `full` bytes on the wire.
    pub(crate) fn new(full: u64) -> Self {
        Self {
            packets: VecDeque::new(),
            items: VecDeque::new(),
            first: 0,
            scan_from: 0,
            largest_acked: None,
            newest_sent_at: Time::ZERO,
            in_flight: 0,
            tolerance: 0,
            tolerance_until: 0,
            barren: (0, false),
            left_out: LeftOut::default(),
            full_size: full,
            full: FullFates::default(),
        }
    }
}

impl<I: Copy> SentPackets<I> {
    /// Frees memory that is kept for speed.
    pub(super) fn shrink(&mut self) {
        self.packets.shrink_to_fit();
        self.items.shrink_to_fit();
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Returns whether it is time to leave a number out, or to choose the first.
    pub(super) fn wants_leaving_out(&self) -> bool {
        self.next_number() >= self.left_out.next
    }

    /// Leaves out the next number, if it was chosen before. Chooses another by `draw`, which the peer cannot foresee.
    pub(super) fn leave_out(&mut self, now: Time, rtt: &Rtt, draw: u64) {
        let number = self.next_number();
        if self.left_out.on_reached(number, draw) {
            self.push_untracked(now, rtt);
        }
    }

    /// Returns how many numbers were left out so far.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.count.into()
    }

    /// Returns whether a SACK acknowledges the last number that was left out.
    pub(super) fn is_made_up(&self, sack: &Sack) -> bool {
        self.left_out.last.is_some_and(|last| {
            let range = sack.ranges.iter().find(|range| *range.start() <= last);
            range.is_some_and(|range| *range.end() >= last)
        })
    }

    /// Sets the size of full packets.
    pub(super) fn set_full_size(&mut self, bytes: u64) {
        self.full_size = bytes;
    }

    /// Returns the fates of full packets since the last call.
    pub(super) fn take_full(&mut self) -> FullFates {
        std::mem::take(&mut self.full)
    }

    pub(super) fn begin_at(&mut self, number: u64) {
        debug_assert!(self.packets.is_empty(), "numbers are given in order");
        (self.first, self.scan_from) = (number, number);
    }

    pub(crate) fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(super) fn push(&mut self, now: Time, size: u64, snapshot: Snapshot, items: &[I]) {
        self.items.extend(items.iter().copied());
        let items = items.len() as u32;
        let (state, spare) = (PacketState::Outstanding, Spare::New);
        self.packets.push_back(Sent { sent_at: now, snapshot, size, items, state, spare });
        self.in_flight += size;
    }

    /// Marks the packet sent last, if it is not [`Spare::New`].
    pub(super) fn mark_last(&mut self, spare: Spare) {
        if let Some(last) = self.packets.back_mut() {
            last.spare = spare;
        }
    }

    /// Records a packet that is not ack-eliciting. It takes a number and nothing else.
    pub(super) fn push_untracked(&mut self, now: Time, rtt: &Rtt) {
        let settled = Sent {
            sent_at: Time::ZERO,
            snapshot: Snapshot::default(),
            size: 0,
            items: 0,
            state: PacketState::Settled,
            spare: Spare::Doubled,
        };
        self.packets.push_back(settled);
        self.trim(now, rtt);
    }

    /// Returns whether the SACK's largest packet was sent after all those known to have arrived.
    pub(super) fn is_further(&self, sack: &Sack) -> bool {
        self.largest_acked < Some(sack.largest())
    }

    pub(super) fn on_sack(
        &mut self,
        sack: &Sack,
        mut on_packet: impl FnMut(&Sent),
        mut on_item: impl FnMut(&I),
    ) -> Acknowledged {
        let mut told = Acknowledged::default();
        for range in &sack.ranges {
            if *range.end() < self.first {
                break;
            }
            self.settle(
                (*range.start()).max(self.first),
                *range.end(),
                sack.largest(),
                &mut told,
                &mut on_packet,
                &mut on_item,
            );
        }
        self.largest_acked = self.largest_acked.max(Some(sack.largest()));
        if told.reordered {
            self.tolerance = (self.tolerance + 1).min(16);
            self.tolerance_until = self.next_number() + TOLERANCE_DECAY;
        }
        told
    }

    fn settle(
        &mut self,
        start: u64,
        end: u64,
        largest: u64,
        told: &mut Acknowledged,
        on_packet: &mut impl FnMut(&Sent),
        on_item: &mut impl FnMut(&I),
    ) {
        let mut item = None;
        for number in start..=end {
            let index = (number - self.first) as usize;
            let packet = self.packets[index];
            if packet.state == PacketState::Settled {
                item = item.map(|item| item + packet.items as usize);
                continue;
            }
            let at = item.unwrap_or_else(|| self.items_before(index));
            self.packets[index].state = PacketState::Settled;
            self.full.acked += u64::from(packet.is_full(self.full_size));
            told.packets += 1;
            if packet.state == PacketState::Outstanding {
                self.in_flight -= packet.size;
                told.bytes += packet.size;
            } else {
                told.spurious_packets += 1;
                told.spurious_bytes += packet.size;
                let overdue = matches!(packet.state, PacketState::Lost { overdue: true, .. });
                told.early_deadline |= overdue;
                told.reordered |= !overdue;
            }
            on_packet(&packet);
            for at in at..at + packet.items as usize {
                on_item(&self.items[at]);
            }
            item = Some(at + packet.items as usize);
            self.newest_sent_at = self.newest_sent_at.max(packet.sent_at);
            if told.newest.is_none_or(|newest| newest.sent_at <= packet.sent_at) {
                told.newest = Some(Newest { sent_at: packet.sent_at, is_largest: number == largest });
            }
        }
    }

    /// Returns how many items the packets before `index` carried, counted from the nearer end.
    fn items_before(&self, index: usize) -> usize {
        if index * 2 < self.packets.len() {
            self.packets.iter().take(index).map(|packet| packet.items as usize).sum()
        } else {
            let behind: usize = self.packets.iter().skip(index).map(|packet| packet.items as usize).sum();
            self.items.len() - behind
        }
    }

    /// Returns the numbers of the packets that were declared lost at this time.
    pub(super) fn lost_at(&self, now: Time) -> Vec<u64> {
        let numbered = (self.first..).zip(&self.packets);
        let lost = |packet: &Sent| matches!(packet.state, PacketState::Lost { at, .. } if at == now);
        numbered.filter(|(_, packet)| lost(packet)).map(|(number, _)| number).collect()
    }

    /// Declares packets lost by a later acknowledgement or their own deadline.
    pub(super) fn detect_lost(&mut self, now: Time, rtt: &Rtt, mut on_item: impl FnMut(&I)) -> DeclaredLost {
        self.trim(now, rtt);
        self.advance_scan();
        let mut lost = DeclaredLost::default();
        let mut item = None;
        let deadline = rtt.deadline();
        for number in self.scan_from..self.next_number() {
            let index = (number - self.first) as usize;
            let packet = self.packets[index];
            if packet.state != PacketState::Outstanding {
                item = item.map(|item| item + packet.items as usize);
                continue;
            }
            if !self.is_lost(now, number, &packet, rtt, deadline) {
                if self.largest_acked.is_none_or(|largest| number > largest) {
                    // Packets with higher numbers were sent later still, so neither rule can apply to them.
                    break;
                }
                item = item.map(|item| item + packet.items as usize);
                continue;
            }
            let at = item.unwrap_or_else(|| self.items_before(index));
            let overdue = packet.sent_at + deadline <= now;
            self.packets[index].state = PacketState::Lost { at: now, overdue };
            self.full.lost += u64::from(packet.is_full(self.full_size));
            self.in_flight -= packet.size;
            lost.count(&packet, self.full_size);
            for at in at..at + packet.items as usize {
                on_item(&self.items[at]);
            }
            item = Some(at + packet.items as usize);
        }
        self.advance_scan();
        lost
    }

    fn is_lost(&self, now: Time, number: u64, packet: &Sent, rtt: &Rtt, deadline: Duration) -> bool {
        if packet.sent_at + deadline <= now {
            return true;
        }
        let Some(largest) = self.largest_acked.filter(|largest| number < *largest) else { return false };
        let between = self.left_out.last.is_some_and(|last| number < last && last < largest);
        if self.tolerance == 0 && largest - number >= REORDER_PACKETS + u64::from(between) {
            return true;
        }
        self.newest_sent_at >= packet.sent_at
            && packet.sent_at + rtt.latest().max(rtt.smoothed()) + self.reorder_window(rtt) <= now
    }

    fn reorder_window(&self, rtt: &Rtt) -> Duration {
        let quarters = self.tolerance.max(1);
        (rtt.min() / 4 * quarters).min(rtt.smoothed())
    }

    /// Returns when the first outstanding packet will be lost without an answer.
    pub(super) fn next_deadline(&self, rtt: &Rtt) -> Option<Time> {
        let start = (self.scan_from.max(self.first) - self.first) as usize;
        let (index, packet) = self
            .packets
            .iter()
            .enumerate()
            .skip(start)
            .find(|(_, packet)| packet.state == PacketState::Outstanding)?;
        let mut at = packet.sent_at + rtt.deadline();
        let number = self.first + index as u64;
        if self.largest_acked.is_some_and(|largest| number < largest) && self.newest_sent_at >= packet.sent_at
        {
            at = at.min(packet.sent_at + rtt.latest().max(rtt.smoothed()) + self.reorder_window(rtt));
        }
        Some(at)
    }

    /// Returns when the first outstanding packet was sent, if its deadline has passed.
    pub(super) fn first_overdue(&mut self, now: Time, rtt: &Rtt) -> Option<Time> {
        self.advance_scan();
        let packet = self.packets.get((self.scan_from - self.first) as usize)?;
        (packet.state == PacketState::Outstanding && packet.sent_at + rtt.deadline() <= now)
            .then_some(packet.sent_at)
    }

    fn advance_scan(&mut self) {
        self.scan_from = self.scan_from.max(self.first);
        while let Some(packet) = self.packets.get((self.scan_from - self.first) as usize)
            && packet.state != PacketState::Outstanding
        {
            self.scan_from += 1;
        }
        if self.tolerance > 0 && self.next_number() > self.tolerance_until {
            self.tolerance -= 1;
            self.tolerance_until = self.next_number() + TOLERANCE_DECAY;
        }
    }

    /// Marks the newest outstanding packet that was sent after `since` and has no second copy as having one, and passes
    /// its items to `on_item`. Without `flight`, only packets with lost data count. Returns how it was marked before,
    /// and its size.
    pub(super) fn double(
        &mut self,
        since: Time,
        flight: bool,
        on_item: impl FnMut(&I),
    ) -> Option<(Spare, u64)> {
        let asked = (self.next_number(), flight);
        if self.barren == asked {
            return None;
        }
        let worth = |packet: &Sent| {
            packet.state == PacketState::Outstanding
                && (packet.spare == Spare::Again || flight && packet.spare == Spare::New)
        };
        let recent = self.packets.iter().enumerate().rev().take(MOST_LOOKED_AT).take_while(|(_, packet)| {
            // Packets that are not ack-eliciting have no sending time.
            packet.sent_at > since || packet.state == PacketState::Settled
        });
        let Some(index) = recent.filter(|(_, packet)| worth(packet)).map(|(index, _)| index).next() else {
            self.barren = asked;
            return None;
        };
        let Sent { spare, size, items, .. } = self.packets[index];
        self.packets[index].spare = Spare::Doubled;
        let first = self.items_before(index);
        self.items.range(first..first + items as usize).for_each(on_item);
        Some((spare, size))
    }

    /// Gives up everything in flight.
    pub(super) fn surrender(&mut self, now: Time, mut on_item: impl FnMut(&I)) {
        let mut items = self.items.iter();
        for packet in &mut self.packets {
            let carried = items.by_ref().take(packet.items as usize);
            if packet.state == PacketState::Outstanding {
                packet.state = PacketState::Lost { at: now, overdue: true };
                self.full.lost += u64::from(packet.is_full(self.full_size));
                carried.for_each(&mut on_item);
            } else {
                carried.for_each(drop);
            }
        }
        self.in_flight = 0;
        self.advance_scan();
    }

    /// Passes the items of all packets in flight to `on_item`.
    pub(super) fn abandon(self, mut on_item: impl FnMut(&I)) {
        let mut items = self.items.iter();
        for packet in &self.packets {
            let carried = items.by_ref().take(packet.items as usize);
            if packet.state == PacketState::Outstanding {
                carried.for_each(&mut on_item);
            } else {
                carried.for_each(drop);
            }
        }
    }

    /// Forgets settled packets at the front, and lost ones after a while. Lost packets are kept while nothing sent
    /// after their loss is acknowledged, unless there are too many: in a silence they may have arrived, and the next
    /// SACK tells.
    fn trim(&mut self, now: Time, rtt: &Rtt) {
        let remember = (rtt.smoothed() * REMEMBER_ROUNDS).max(REMEMBER_AT_LEAST);
        while let Some(packet) = self.packets.front() {
            let forget = match packet.state {
                PacketState::Outstanding => false,
                PacketState::Settled => true,
                PacketState::Lost { at, .. } => {
                    now.since(at) > remember && (at < self.newest_sent_at || self.packets.len() > MOST_KEPT)
                }
            };
            if !forget {
                break;
            }
            self.items.drain(..packet.items as usize);
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sack(ranges: &[(u64, u64)]) -> Sack {
        Sack { ranges: ranges.iter().map(|(from, to)| *from..=*to).collect(), ..Sack::default() }
    }

    #[test]
    fn who_acknowledges_a_number_left_out_has_made_it_up() {
        let (mut sent, rtt, now) = (SentPackets::<()>::new(1500), Rtt::default(), Time::ZERO);
        let mut left_out = Vec::new();
        for draw in 0..10_000u64 {
            sent.push(now, 100, Snapshot::default(), &[]);
            if sent.wants_leaving_out() {
                let (before, count) = (sent.next_number(), sent.left_out());
                sent.leave_out(now, &rtt, draw.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                assert_eq!(sent.next_number() - before, sent.left_out() - count);
                left_out.extend((sent.left_out() > count).then_some(before));
            }
        }
        assert!((5..200).contains(&left_out.len()), "{left_out:?}");
        assert!(left_out[0] < 64, "early enough for a short connection: {left_out:?}");
        let (last, end) = (left_out[left_out.len() - 1], sent.next_number() - 1);
        assert!(sent.is_made_up(&sack(&[(0, end)])));
        assert!(sent.is_made_up(&sack(&[(end, end), (last, last), (0, 1)])));
        assert!(!sent.is_made_up(&sack(&[(last + 1, end), (0, last - 1)])));
        assert!(!sent.is_made_up(&sack(&[(last + 1, end)])));
        assert!(!sent.is_made_up(&sack(&[(0, last - 1)])));
    }

    /// A number that was never used does not count as a later packet for the reordering threshold.
    #[test]
    fn a_number_left_out_makes_no_packet_lost() {
        let (mut sent, rtt, now) = (SentPackets::<()>::new(1500), Rtt::default(), Time::ZERO);
        sent.leave_out(now, &rtt, 0);
        while sent.left_out() == 0 {
            sent.push(now, 100, Snapshot::default(), &[]);
            if sent.wants_leaving_out() {
                sent.leave_out(now, &rtt, 0);
            }
        }
        for _ in 0..2 {
            sent.push(now, 100, Snapshot::default(), &[]);
        }
        let next = sent.next_number();
        // All packets but the one before the number left out are acknowledged.
        sent.on_sack(&sack(&[(next - 2, next - 1), (0, next - 5)]), |_| (), |()| ());
        assert_eq!(sent.detect_lost(now, &rtt, |()| ()).packets, 0);
        sent.push(now, 100, Snapshot::default(), &[]);
        sent.on_sack(&sack(&[(next - 2, next), (0, next - 5)]), |_| (), |()| ());
        assert_eq!(sent.detect_lost(now, &rtt, |()| ()).packets, 1);
    }

    /// A peer that acknowledged nothing and made this end send SACKs let these pile up behind a lost packet until the
    /// next probe.
    #[test]
    fn regression_a_lost_packet_is_forgotten_by_what_is_not_acknowledged_too() {
        let (mut sent, rtt, mut now) = (SentPackets::<()>::new(1500), Rtt::default(), Time::ZERO);
        sent.push(now, 100, Snapshot::default(), &[]);
        now += rtt.deadline();
        assert_eq!(sent.detect_lost(now, &rtt, |()| ()).packets, 1);
        for _ in 0..10_000 {
            now += Duration::from_millis(1);
            sent.push_untracked(now, &rtt);
        }
        assert_eq!((sent.packets.len(), sent.next_number()), (0, 10_001));
    }
}
