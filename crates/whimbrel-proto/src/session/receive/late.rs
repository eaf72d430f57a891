//! Messages that arrive after their gap was passed over. The sender must not take their acknowledgement for delivery.
//!
//! Therefore the receiver sends a verdict, which is an answer to a SKIP that was not sent. It precedes the acknowledgement
//! in every packet that has one, until the verdict has arrived. No acknowledgement can then arrive before it.

use std::ops::Range;

use crate::session::message::DomainKey;

/// Most verdicts kept, all of which ride in one packet with every acknowledgement. Beyond that the oldest is forgotten,
/// and its messages count as delivered.
const MAX_VERDICTS: usize = 64;

/// Most messages covered by one verdict, since the sender looks at each.
pub(in crate::session) const MAX_TOGETHER: u64 = 256;

/// The peer's answer on a message that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Answer {
    /// The peer never received it and will not take it any more.
    Skipped,
    /// The peer had received it.
    Delivered,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) struct LateVerdict {
    pub(in crate::session) key: DomainKey,
    pub(in crate::session) numbers: Range<u64>,
    /// Whether each message arrived in one piece, so that nothing more follows. For messages in parts, the sender still
    /// sends SKIPs.
    pub(in crate::session) whole: bool,
}

impl LateVerdict {
    /// Extends the verdict by the number after its last. Messages that travel together are late together.
    fn extend(&mut self, key: DomainKey, number: u64, whole: bool) -> bool {
        let room = self.numbers.end - self.numbers.start < MAX_TOGETHER;
        let next = (self.key, self.numbers.end, self.whole) == (key, number, whole) && room;
        self.numbers.end += u64::from(next);
        next
    }
}

/// Verdicts that are not acknowledged yet.
#[derive(Debug, Default)]
pub(in crate::session) struct LateVerdicts {
    pub(in crate::session) list: Vec<LateVerdict>,
    pub(in crate::session) due: bool,
}

impl LateVerdicts {
    /// Returns the numbers of a domain that have verdicts, each with whether the whole message arrived.
    pub(in crate::session) fn of(&self, key: DomainKey) -> Vec<(u64, bool)> {
        let of = self.list.iter().filter(|verdict| verdict.key == key);
        of.flat_map(|verdict| verdict.numbers.clone().map(|number| (number, verdict.whole))).collect()
    }

    /// Restores a verdict that was unacknowledged when the session was saved.
    pub(in crate::session) fn restore(&mut self, key: DomainKey, number: u64, whole: bool) -> bool {
        self.add(key, number, whole).is_none()
    }

    /// Adds a message to the verdicts. Returns the oldest verdict if it had to make room.
    pub(in crate::session) fn add(
        &mut self,
        key: DomainKey,
        number: u64,
        whole: bool,
    ) -> Option<LateVerdict> {
        self.due = true;
        if self.list.iter_mut().any(|verdict| verdict.extend(key, number, whole)) {
            return None;
        }
        let forgotten = (self.list.len() >= MAX_VERDICTS).then(|| self.list.remove(0));
        self.list.push(LateVerdict { key, numbers: number..number + 1, whole });
        forgotten
    }

    /// Removes and returns the parts of verdicts that these acknowledged numbers settle.
    pub(in crate::session) fn take(&mut self, key: DomainKey, numbers: &Range<u64>) -> Vec<LateVerdict> {
        let mut taken = Vec::new();
        for verdict in self.list.iter_mut().filter(|verdict| verdict.key == key) {
            let of = &mut verdict.numbers;
            // It was written whole and can only have grown at its end since.
            if of.start >= numbers.start && of.start < numbers.end {
                let end = of.end.min(numbers.end);
                taken.push(LateVerdict { key, numbers: of.start..end, whole: verdict.whole });
                of.start = end;
            }
        }
        self.list.retain(|verdict| !verdict.numbers.is_empty());
        taken
    }

    #[inline]
    pub(in crate::session) fn is_due(&self) -> bool {
        self.due
    }
}
