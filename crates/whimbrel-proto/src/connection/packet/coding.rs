//! Coding packets against loss: repair symbols for messages in parts that could not be retransmitted in time.

use std::time::Duration;

use crate::Time;
use crate::budget::Budget;
use crate::coding::{CodingStats, Decoder, Encoder, MOST_HELD, Recovered, Repair};
use crate::wire::{Malformed, Reader, Writer, block, varint_len};

/// For so long after such a message, packets leave room for the head of a source symbol.
const ARMED: Duration = Duration::from_secs(1);
/// So long a burst of losses is remembered.
const REMEMBERED: Duration = Duration::from_secs(15);
/// So many packets lost at once are a burst.
const BURST: u32 = 4;
/// Losses detected within this time of each other are of one burst.
const ONE_BURST: Duration = Duration::from_millis(5);
/// The repair symbols for each source symbol if nothing was lost lately.
const LEAST: f64 = 0.05;
/// The repair symbols for each source symbol where little is lost, and how many more for each lost one, beside those that
/// stand in for it.
const BASE: f64 = 0.16;
const PER_LOSS: f64 = 2.6;
/// These are for a window of so many source symbols. Over fewer, the number of losses varies more.
const USUAL_WINDOW: f64 = 18.0;
/// The repair symbols for each source symbol that a burst like the longest would take: some of them are lost in it, too.
const PER_BURST: f64 = 1.15;
/// Repair symbols wait behind data for this part of the time in which they are of use.
const LATEST_SHARE: f64 = 3.0;
/// The most repair symbols that wait.
const MOST_OWED: f64 = 64.0;
/// What a repair symbol takes beside the source symbol: its type, count, key, the length in the sum; and two bytes
/// since its number may be longer.
const REPAIR_EXTRA: usize = 9;

/// The state of both directions, once there is one.
#[derive(Debug, Default)]
pub(in crate::connection) struct Coding(Option<Box<State>>);

#[derive(Debug, Default)]
struct State {
    encoder: Encoder,
    /// There is none if the memory for it was not free.
    decoder: Option<Receiving>,
    /// The repair symbols that follow as soon as no data waits, but by the time in `latest`.
    owed: f64,
    latest: Time,
    /// Those that are spread over time: beside the packets of a message they would be lost in the same burst.
    spread: f64,
    /// When the next of these is due, and the time between two of them.
    next: Time,
    spacing: Duration,
    armed_until: Time,
    bursts: Bursts,
    recovered: Vec<Recovered>,
    stats: CodingStats,
}

/// The bursts of losses lately.
#[derive(Debug, Default)]
struct Bursts {
    /// The packets lost in the longest one before the latest run, and until when more such bursts are expected.
    longest: u32,
    until: Time,
    /// Those lost in the latest run, and when the last of them was detected.
    run: u32,
    run_at: Time,
}

impl Bursts {
    fn on_lost(&mut self, now: Time, packets: u32) {
        if now > self.run_at + ONE_BURST {
            self.longest = self.longest(now);
            self.run = 0;
        }
        self.run = self.run.saturating_add(packets);
        self.run_at = now;
        // Short bursts do not keep the memory of a long one.
        if self.run >= BURST.max(self.longest(now) / 2) {
            self.until = now + REMEMBERED;
        }
    }

    /// Notes that packets had not been lost: they were late.
    fn on_spurious(&mut self, packets: u64) {
        self.run = self.run.saturating_sub(packets.try_into().unwrap_or(u32::MAX));
    }

    fn longest(&self, now: Time) -> u32 {
        if self.until <= now {
            return 0;
        }
        self.longest.max(if self.run >= BURST { self.run } else { 0 })
    }
}

/// A decoder with the memory that it may take.
#[derive(Debug)]
struct Receiving {
    decoder: Decoder,
    memory: Budget,
}

impl Receiving {
    fn begin(memory: &Budget) -> Option<Self> {
        memory.take(MOST_HELD).then(|| Self { decoder: Decoder::default(), memory: memory.clone() })
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.memory.give_back(MOST_HELD);
    }
}

/// What a source symbol's protection follows from.
pub(super) struct Plan {
    /// The time for which it is of use, and half an RTT of it.
    pub(super) left: Duration,
    pub(super) half: Duration,
    /// The share of packets lost lately.
    pub(super) loss: f64,
    /// The most repair symbols for a source symbol.
    pub(super) most: f64,
}

impl Coding {
    /// Returns whether messages that repair symbols protect were sent lately.
    pub(super) fn is_armed(&self, now: Time) -> bool {
        self.0.as_ref().is_some_and(|state| state.armed_until > now)
    }

    /// Returns how many bytes of a packet are to be left, so that it can be a source symbol. `None`: it cannot.
    pub(super) fn reserve(&self, now: Time) -> Option<usize> {
        let state = self.0.as_ref().filter(|_| self.is_armed(now))?;
        Some(varint_len(state.encoder.next()) + REPAIR_EXTRA)
    }

    /// Returns when a repair symbol is due. While data `waits`, that goes first for a while: the frame is complete
    /// earlier where nothing of it is lost.
    pub(in crate::connection) fn due(&self, waits: bool) -> Option<Time> {
        let state = self.0.as_ref()?;
        match (state.owed >= 1.0, waits) {
            (true, true) => Some(state.latest),
            (true, false) => Some(Time::ZERO),
            (false, _) => (state.spread >= 1.0).then_some(state.next),
        }
    }

    /// Notes how many packets with parts of messages were lost at once, and how many packets had not been lost after all.
    pub(in crate::connection) fn on_lost(&mut self, now: Time, packets: u32, spurious: u64) {
        if let Some(state) = &mut self.0 {
            state.bursts.on_spurious(spurious);
            if packets > 0 {
                state.bursts.on_lost(now, packets);
            }
        }
    }

    pub(in crate::connection) fn stats(&self) -> CodingStats {
        self.0.as_ref().map_or(CodingStats::default(), |state| state.stats)
    }

    /// Takes the number of a source symbol, which is the rest of its packet.
    pub(super) fn on_source(&mut self, reader: &mut Reader, memory: &Budget) -> Result<(), Malformed> {
        let number = reader.varint()?;
        self.receive(memory, |decoder| decoder.on_symbol(number, reader.peek()));
        Ok(())
    }

    /// Takes a repair symbol, which ends its packet.
    pub(super) fn on_repair(&mut self, reader: &mut Reader, memory: &Budget) -> Result<(), Malformed> {
        let repair = read_repair(reader)?;
        if !repair.is_sound() {
            return Ok(());
        }
        self.receive(memory, |decoder| decoder.on_repair(&repair));
        Ok(())
    }

    fn receive(&mut self, memory: &Budget, take: impl FnOnce(&mut Decoder) -> Vec<Recovered>) {
        let state = self.0.get_or_insert_default();
        if state.decoder.is_none() {
            state.decoder = Receiving::begin(memory);
        }
        if let Some(receiving) = &mut state.decoder {
            state.recovered.extend(take(&mut receiving.decoder));
        }
    }

    /// Frees the memory of what is over.
    pub(in crate::connection) fn trim(&mut self) {
        if let Some(state) = &mut self.0 {
            state.encoder.trim();
            state.decoder = None;
        }
    }

    /// Makes what was written from `mark` on a source symbol. `reserved`: what was left for that.
    /// Returns whether it is one.
    pub(super) fn code(
        &mut self,
        now: Time,
        plan: &Plan,
        out: &mut Vec<u8>,
        mark: usize,
        reserved: usize,
    ) -> bool {
        let Plan { left, half, loss, most } = *plan;
        let state = self.0.get_or_insert_default();
        state.armed_until = now + ARMED;
        if reserved == 0 || out.len() == mark {
            return false;
        }
        let useful = left.saturating_sub(half);
        let number = state.encoder.push(now, useful, &out[mark..]);
        let window = state.encoder.len().max(1) as f64;
        let random =
            if loss > 0.0 { loss + (BASE + PER_LOSS * loss) * (USUAL_WINDOW / window).sqrt() } else { LEAST };
        let bursts = PER_BURST * f64::from(state.bursts.longest(now)) / window;
        let random = random.min(most);
        let bursts = (bursts.min(most) - random).max(0.0);
        if state.owed < 1.0 {
            state.latest = now + useful.div_f64(LATEST_SHARE);
        }
        state.owed = (state.owed + random).min(MOST_OWED);
        state.spread = (state.spread + bursts).min(MOST_OWED);
        state.spacing = useful.div_f64((bursts * state.encoder.len() as f64).max(1.0));
        state.stats.sources += 1;
        let mut head = Vec::with_capacity(reserved);
        write_source(number, &[], &mut Writer::new(&mut head, reserved));
        out.splice(mark..mark, head);
        true
    }

    /// Writes a repair symbol that is due. Returns false if there is none, or no room for it.
    pub(super) fn write_repair(&mut self, now: Time, writer: &mut Writer<'_>) -> bool {
        let Some(state) = &mut self.0 else { return false };
        let Some(repair) = state.encoder.repair(now) else {
            (state.owed, state.spread) = (0.0, 0.0);
            return false;
        };
        if state.owed >= 1.0 {
            state.owed -= 1.0;
        } else {
            state.spread -= 1.0;
            state.next = now + state.spacing;
        }
        if repair_len(&repair) > writer.remaining() {
            return false;
        }
        state.stats.repairs += 1;
        write_repair(&repair, writer);
        true
    }

    /// Returns whether source symbols were recovered and not taken yet.
    #[inline]
    pub(super) fn has_recovered(&self) -> bool {
        self.0.as_ref().is_some_and(|state| !state.recovered.is_empty())
    }

    pub(super) fn take_recovered(&mut self) -> Vec<Recovered> {
        let Some(state) = &mut self.0 else { return Vec::new() };
        state.stats.recovered += state.recovered.len() as u64;
        std::mem::take(&mut state.recovered)
    }
}

/// Returns whether the session handles blocks of this type.
pub(in crate::connection) fn is_of_session(kind: u8) -> bool {
    matches!(
        kind,
        block::DATA
            | block::SKIP
            | block::SKIP_ACK
            | block::MAX_STREAM_DATA
            | block::MAX_STREAMS
            | block::RESET
            | block::STOP
            | block::END
            | block::TAKEN
    )
}

/// Writes SOURCE.
pub(in crate::connection) fn write_source(number: u64, symbol: &[u8], out: &mut Writer<'_>) {
    out.u8(block::SOURCE);
    out.varint(number);
    out.bytes(symbol);
}

fn repair_len(repair: &Repair) -> usize {
    1 + varint_len(repair.first) + varint_len(repair.count) + 2 + repair.sum.len()
}

/// Writes REPAIR.
pub(in crate::connection) fn write_repair(repair: &Repair, out: &mut Writer<'_>) {
    out.u8(block::REPAIR);
    out.varint(repair.first);
    out.varint(repair.count);
    out.bytes(&repair.key.to_be_bytes());
    out.bytes(&repair.sum);
}

/// Reads REPAIR, which ends its packet.
pub(in crate::connection) fn read_repair(reader: &mut Reader) -> Result<Repair, Malformed> {
    let (first, count) = (reader.varint()?, reader.varint()?);
    let key = u16::from_be_bytes(reader.array()?);
    Ok(Repair { first, count, key, sum: reader.rest().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn losses_close_together_are_one_burst_and_few_are_none() {
        let (mut bursts, start) = (Bursts::default(), Time::ZERO + SECOND);
        for step in 0..10 {
            bursts.on_lost(start + ONE_BURST * step, 1);
        }
        assert_eq!(bursts.longest(start + SECOND), 10);
        bursts.on_lost(start + SECOND, BURST - 1);
        assert_eq!(bursts.longest(start + SECOND), 10);
        assert_eq!(bursts.longest(start + ONE_BURST * 9 + REMEMBERED), 0);
    }

    #[test]
    fn packets_that_were_late_are_no_burst() {
        let (mut bursts, start) = (Bursts::default(), Time::ZERO + SECOND);
        bursts.on_lost(start, 6);
        assert_eq!(bursts.longest(start), 6);
        bursts.on_spurious(1);
        assert_eq!(bursts.longest(start), 5);
        bursts.on_spurious(4);
        assert_eq!(bursts.longest(start + MS), 0);
    }

    #[test]
    fn short_bursts_do_not_keep_the_memory_of_a_long_one() {
        let (mut bursts, start) = (Bursts::default(), Time::ZERO + SECOND);
        bursts.on_lost(start, 40);
        for second in 1..30 {
            bursts.on_lost(start + SECOND * second, BURST);
        }
        assert_eq!(bursts.longest(start + SECOND * 30), BURST);
        bursts.on_lost(start + SECOND * 30, 40);
        bursts.on_lost(start + SECOND * 40, 20);
        assert_eq!(bursts.longest(start + SECOND * 50), 40);
    }
}
