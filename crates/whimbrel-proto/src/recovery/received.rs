//! Packets received on a path, and when to acknowledge them.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Time;
use crate::mutants::{Mutant, planted};
use crate::wire::Writer;
use crate::wire::sack::{self, EcnCounts, MAX_RANGES};

/// An ECN codepoint of a received datagram (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion experienced.
    Ce,
}

/// The packet numbers received, as at most [`MAX_RANGES`] ranges. If there would be more, the lowest is forgotten. All
/// numbers below the floor then count as received, so a packet that late is treated as a duplicate.
#[derive(Debug)]
pub(crate) struct Received {
    /// Ascending ranges that are disjoint and not adjacent.
    ranges: VecDeque<RangeInclusive<u64>>,
    floor: u64,
    largest_at: Time,
    duplicates: u64,
    ecn: EcnCounts,
    ack: AckPolicy,
}

/// The policy for when a SACK is due. It is due at once on gaps, on CE marks and for the first packets. Otherwise it is
/// due after a number of packets or a delay that follow the path. The delay is at most an eighth of an RTT, and almost
/// none after a pause as long as that.
#[derive(Debug)]
struct AckPolicy {
    unreported: u32,
    due: Option<Time>,
    now_due: bool,
    total: u64,
    /// When an ack-eliciting packet last arrived.
    last: Time,
}

/// How long the SACK for a packet that arrived alone waits for data to ride with.
const SOON: Duration = Duration::from_millis(1);

/// Packets acknowledged one by one after the start, so that the sender learns the path quickly.
const EAGER_PACKETS: u64 = 32;

impl Default for Received {
    fn default() -> Self {
        Self {
            ranges: VecDeque::new(),
            floor: 0,
            largest_at: Time::ZERO,
            duplicates: 0,
            ecn: EcnCounts::default(),
            ack: AckPolicy { unreported: 0, due: None, now_due: false, total: 0, last: Time::ZERO },
        }
    }
}

impl Received {
    /// Frees memory that is kept for speed.
    pub(crate) fn trim(&mut self) {
        self.ranges.shrink_to_fit();
    }

    /// Returns the highest number received.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.back().map(|range| *range.end())
    }

    /// Returns the number that would come next, for expanding truncated packet numbers.
    pub(crate) fn expected(&self) -> u64 {
        self.largest().map_or(0, |largest| largest + 1)
    }

    /// Returns whether `number` was received before, or is too old to tell.
    pub(crate) fn is_duplicate(&self, number: u64) -> bool {
        if number < self.floor {
            return true;
        }
        self.ranges
            .iter()
            .rev()
            .take_while(|range| *range.end() >= number)
            .any(|range| range.contains(&number))
    }

    /// Counts a duplicate, which the next SACK reports, and does nothing else. A sender uses each number once, so a
    /// duplicate does not mean that a SACK was lost. The network made it, or an attacker who wants an answer.
    pub(crate) fn on_duplicate(&mut self) {
        self.duplicates += 1;
    }

    /// Makes a SACK due again, because the last one may not have arrived.
    pub(crate) fn report_again(&mut self) {
        self.ack.now_due = !self.ranges.is_empty();
    }

    /// Returns how many packets were received more than once.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Records `number`, which was not received before. `eliciting` packets ask for acknowledgement.
    pub(crate) fn on_packet(
        &mut self,
        now: Time,
        number: u64,
        eliciting: bool,
        ecn: Option<Ecn>,
        pace: AckPace,
    ) {
        let in_order = number == self.expected();
        if self.largest().is_none_or(|largest| number > largest) {
            self.largest_at = now;
        }
        self.insert(number);
        if planted(Mutant::UnseenAcknowledged) && number > 0 && !self.is_duplicate(number - 1) {
            self.insert(number - 1);
        }
        match ecn {
            Some(Ecn::Ect0) => self.ecn.ect0 += 1,
            Some(Ecn::Ect1) => self.ecn.ect1 += 1,
            Some(Ecn::Ce) => self.ecn.ce += 1,
            None => {}
        }
        if eliciting {
            self.ack.on_eliciting(now, in_order && ecn != Some(Ecn::Ce), pace);
        }
    }

    fn insert(&mut self, number: u64) {
        // Nearly every packet extends the last range.
        let mut at = self.ranges.len();
        while at > 0 && *self.ranges[at - 1].start() > number {
            at -= 1;
        }
        let joins_below = at > 0 && self.ranges[at - 1].end() + 1 == number;
        let joins_above = at < self.ranges.len() && *self.ranges[at].start() == number + 1;
        match (joins_below, joins_above) {
            (true, true) => {
                self.ranges[at - 1] = *self.ranges[at - 1].start()..=*self.ranges[at].end();
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1] = *self.ranges[at - 1].start()..=number,
            (false, true) => self.ranges[at] = number..=*self.ranges[at].end(),
            (false, false) => self.ranges.insert(at, number..=number),
        }
        if self.ranges.len() > MAX_RANGES
            && let Some(oldest) = self.ranges.pop_front()
        {
            self.floor = self.floor.max(oldest.end() + 1);
        }
    }

    /// Forgets ranges below `largest`, since the peer has received a SACK that reported them.
    pub(crate) fn on_sack_acked(&mut self, largest: u64) {
        while self.ranges.len() > 1 && self.ranges.front().is_some_and(|range| *range.end() < largest) {
            if let Some(range) = self.ranges.pop_front() {
                self.floor = self.floor.max(range.end() + 1);
            }
        }
    }

    /// Returns whether there are so many ranges that the peer should be asked to acknowledge a SACK, so that old ranges
    /// can be dropped.
    pub(crate) fn wants_pruning(&self) -> bool {
        self.ranges.len() > MAX_RANGES / 8
    }

    /// Returns whether a SACK must be sent now, even by itself.
    pub(crate) fn is_sack_due(&self, now: Time) -> bool {
        self.ack.now_due || self.ack.due.is_some_and(|due| due <= now)
    }

    /// Returns whether anything is unreported. A packet that is sent anyway should then carry a SACK.
    pub(crate) fn has_unreported(&self) -> bool {
        self.ack.now_due || self.ack.unreported > 0
    }

    /// Returns when a SACK becomes due.
    pub(crate) fn next_sack(&self) -> Option<Time> {
        if self.ack.now_due { Some(Time::ZERO) } else { self.ack.due }
    }

    /// Writes a SACK and returns the largest number reported. Unless it `settles`, another SACK remains due.
    pub(crate) fn write_sack(
        &mut self,
        now: Time,
        path: u32,
        settles: bool,
        out: &mut Writer<'_>,
    ) -> Option<u64> {
        let delay_us = u64::try_from(now.since(self.largest_at).as_micros()).unwrap_or(0).min(1 << 40);
        let ranges = self.ranges.iter().rev().cloned();
        if !sack::write(out, path, delay_us, ranges, self.duplicates, self.ecn) {
            return None;
        }
        if settles {
            self.ack.on_reported();
        }
        self.largest()
    }
}

/// The limits within which SACKs must follow received packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckPace {
    /// Most packets until a SACK is sent.
    pub(crate) every: u32,
    /// Longest delay until a SACK is sent.
    pub(crate) delay: Duration,
}

impl AckPolicy {
    fn on_eliciting(&mut self, now: Time, in_order: bool, pace: AckPace) {
        self.unreported += 1;
        self.total += 1;
        if !in_order || self.unreported >= pace.every || self.total <= EAGER_PACKETS {
            self.now_due = true;
        } else if self.due.is_none() {
            // After such a pause no second packet is expected soon that the SACK could also report.
            let alone = now.since(self.last) >= pace.delay;
            self.due = Some(now + if alone { pace.delay.min(SOON) } else { pace.delay });
        }
        self.last = now;
    }

    fn on_reported(&mut self) {
        self.unreported = 0;
        self.due = None;
        self.now_due = false;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::Reader;
    use crate::wire::sack::Sack;

    const PACE: AckPace = AckPace { every: 2, delay: Duration::from_millis(5) };

    proptest! {
        #[test]
        fn remembers_like_a_set(numbers in proptest::collection::vec(0u64..60, 0..120)) {
            let mut received = Received::default();
            let mut model = BTreeSet::new();
            for number in numbers {
                prop_assert_eq!(received.is_duplicate(number), model.contains(&number));
                if model.insert(number) {
                    received.on_packet(Time::ZERO, number, true, None, PACE);
                }
            }
            let mut buf = Vec::new();
            let largest = received.write_sack(Time::ZERO, 0, true, &mut Writer::new(&mut buf, 1200));
            prop_assert_eq!(largest, model.last().copied());
            if largest.is_some() {
                let mut sack = Sack::default();
                sack.read(&mut Reader::new(bytes::Bytes::from(buf).slice(1..))).unwrap();
                let told: BTreeSet<u64> = sack.ranges.iter().cloned().flatten().collect();
                prop_assert_eq!(told, model);
            }
        }
    }

    #[test]
    fn too_many_gaps_forget_the_oldest_and_never_accept_it_again() {
        let mut received = Received::default();
        for number in 0..200u64 {
            received.on_packet(Time::ZERO, number * 2, true, None, PACE);
        }
        assert_eq!(received.ranges.len(), MAX_RANGES);
        assert!(received.is_duplicate(0));
        assert!(received.is_duplicate(1), "below the floor nothing can be told apart");
        assert!(!received.is_duplicate(399));
    }

    #[test]
    fn a_gap_is_reported_at_once() {
        let mut received = Received::default();
        for number in 0..EAGER_PACKETS {
            received.on_packet(Time::ZERO, number, true, None, PACE);
        }
        received.write_sack(Time::ZERO, 0, true, &mut Writer::new(&mut Vec::new(), 100));
        received.on_packet(Time::ZERO, EAGER_PACKETS, true, None, PACE);
        assert!(!received.is_sack_due(Time::ZERO));
        assert!(received.is_sack_due(Time::ZERO + PACE.delay));
        received.on_packet(Time::ZERO, EAGER_PACKETS + 2, true, None, PACE);
        assert!(received.is_sack_due(Time::ZERO));
    }
}
