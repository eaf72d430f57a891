//! Messages that came after their gap was passed over: the sender must not take their acknowledgement for delivery.
//!
//! So a verdict, an answer to a SKIP that was not asked for, rides before the acknowledgement in every packet that has one, until it
//! has arrived: then no acknowledgement can be there before it.

use std::ops::Range;

use crate::session::message::DomainKey;

/// Verdicts that ride with every acknowledgement, all in one packet. With more at a time the oldest is forgotten: its messages count as
/// delivered.
const MAX_VERDICTS: usize = 64;

/// Messages that one verdict is on: the sender looks at each.
pub(in crate::session) const MAX_TOGETHER: u64 = 256;

/// What the peer says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Answer {
    /// It never got it, and will not take it any more.
    Skipped,
    /// It had come.
    Delivered,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) struct LateVerdict {
    pub(in crate::session) key: DomainKey,
    pub(in crate::session) numbers: Range<u64>,
    /// They came in one piece each: nothing more will be heard of them. Of those in parts the sender sends SKIPs yet.
    pub(in crate::session) whole: bool,
}

impl LateVerdict {
    /// Takes in the number after the last. Messages that travel together are late together.
    fn extend(&mut self, key: DomainKey, number: u64, whole: bool) -> bool {
        let room = self.numbers.end - self.numbers.start < MAX_TOGETHER;
        let next = (self.key, self.numbers.end, self.whole) == (key, number, whole) && room;
        self.numbers.end += u64::from(next);
        next
    }
}

/// Verdicts on their way.
#[derive(Debug, Default)]
pub(in crate::session) struct LateVerdicts {
    pub(in crate::session) list: Vec<LateVerdict>,
    pub(in crate::session) due: bool,
}

impl LateVerdicts {
    /// Numbers of a domain, and whether all of the message came.
    pub(in crate::session) fn of(&self, key: DomainKey) -> Vec<(u64, bool)> {
        let of = self.list.iter().filter(|verdict| verdict.key == key);
        of.flat_map(|verdict| verdict.numbers.clone().map(|number| (number, verdict.whole))).collect()
    }

    /// One that was on its way when the session was written down.
    pub(in crate::session) fn restore(&mut self, key: DomainKey, number: u64, whole: bool) -> bool {
        self.add(key, number, whole).is_none()
    }

    /// One more; the oldest if there is no room for both.
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

    /// Takes out what is over of these numbers.
    pub(in crate::session) fn take(&mut self, key: DomainKey, numbers: &Range<u64>) -> Vec<LateVerdict> {
        let mut taken = Vec::new();
        for verdict in self.list.iter_mut().filter(|verdict| verdict.key == key) {
            let of = &mut verdict.numbers;
            // It was written whole, and can only have grown at its end since.
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
