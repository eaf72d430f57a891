//! Blocks of the connection that must arrive. They are kept as bytes until the packet that carried them is
//! acknowledged, and retransmitted when it is lost. They may arrive in any order; blocks for which the order matters
//! carry a sequence number.

use std::collections::VecDeque;

use crate::wire::Writer;

/// The notices that are not acknowledged yet.
#[derive(Debug, Default)]
pub(in crate::connection) struct ControlNotices {
    waiting: VecDeque<ControlNotice>,
    next: u32,
}

/// One notice. `Debug` prints only its kind, since some notices hold reset tokens.
struct ControlNotice {
    number: u32,
    due: bool,
    /// Whether it is not retransmitted any more. A copy may still arrive.
    withdrawn: bool,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for ControlNotice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = self.bytes.first();
        write!(f, "ControlNotice {{ {}, due {}, block {kind:?} }}", self.number, self.due)
    }
}

impl ControlNotices {
    /// Adds a whole block. Returns its number.
    pub(in crate::connection) fn push(&mut self, bytes: Vec<u8>) -> u32 {
        let number = self.next;
        self.waiting.push_back(ControlNotice { number, due: true, withdrawn: false, bytes });
        self.next = self.next.wrapping_add(1);
        number
    }

    /// Returns how many blocks are not acknowledged yet.
    pub(in crate::connection) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Stops retransmitting a block. Copies already sent may still arrive.
    pub(in crate::connection) fn withdraw(&mut self, number: u32) {
        if let Some(notice) = self.waiting.iter_mut().find(|notice| notice.number == number) {
            (notice.due, notice.withdrawn) = (false, true);
        }
    }

    /// Queues a withdrawn block again.
    pub(in crate::connection) fn renew(&mut self, number: u32) {
        if let Some(notice) =
            self.waiting.iter_mut().find(|notice| notice.number == number && notice.withdrawn)
        {
            (notice.due, notice.withdrawn) = (true, false);
        }
    }

    /// Returns whether the block is not acknowledged yet.
    pub(in crate::connection) fn holds(&self, number: u32) -> bool {
        self.held(number).is_some()
    }

    /// Returns the block's bytes until it is acknowledged.
    pub(in crate::connection) fn held(&self, number: u32) -> Option<&[u8]> {
        let notice = self.waiting.iter().find(|notice| notice.number == number);
        notice.map(|notice| &notice.bytes[..])
    }

    pub(in crate::connection) fn is_due(&self) -> bool {
        self.waiting.iter().any(|notice| notice.due)
    }

    /// Writes the blocks that are due and fit, and reports the number of each to `carried`.
    pub(in crate::connection) fn fill(&mut self, out: &mut Writer<'_>, mut carried: impl FnMut(u32)) {
        for notice in self.waiting.iter_mut().filter(|notice| notice.due) {
            if out.remaining() < notice.bytes.len() {
                break;
            }
            out.bytes(&notice.bytes);
            notice.due = false;
            carried(notice.number);
        }
    }

    pub(in crate::connection) fn on_acked(&mut self, number: u32) {
        self.waiting.retain(|notice| notice.number != number);
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
    }

    pub(in crate::connection) fn on_lost(&mut self, number: u32) {
        if let Some(notice) = self.waiting.iter_mut().find(|notice| notice.number == number) {
            notice.due = !notice.withdrawn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_goes_again_until_it_is_acknowledged() {
        let mut notices = ControlNotices::default();
        notices.push(vec![1; 10]);
        notices.push(vec![2; 10]);
        let (mut buf, mut carried) = (Vec::new(), Vec::new());
        notices.fill(&mut Writer::new(&mut buf, 15), |number| carried.push(number));
        assert_eq!((buf.len(), &carried[..]), (10, &[0][..]));
        notices.fill(&mut Writer::new(&mut buf, 100), |number| carried.push(number));
        assert_eq!(carried, [0, 1]);
        assert!(!notices.is_due());
        notices.on_lost(0);
        assert!(notices.is_due());
        notices.on_acked(0);
        notices.on_acked(1);
        notices.on_lost(1);
        assert!(!notices.is_due(), "acknowledged once is enough");
    }

    #[test]
    fn a_notice_that_was_withdrawn_is_waited_for_and_not_repeated() {
        let mut notices = ControlNotices::default();
        let number = notices.push(vec![1; 10]);
        notices.fill(&mut Writer::new(&mut Vec::new(), 15), |_| {});
        notices.withdraw(number);
        notices.on_lost(number);
        assert!(!notices.is_due() && notices.holds(number));
        notices.renew(number);
        assert!(notices.is_due(), "it is wanted again");
        notices.withdraw(number);
        notices.on_acked(number);
        assert!(!notices.holds(number), "it came after all");
    }
}
