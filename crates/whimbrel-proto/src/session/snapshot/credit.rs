//! Saving credit: absolute sums, which the peer counts in the same way.

use super::{ReceivedCredit, RecvCredit, SendCredit};
use crate::session::config::WIDEST;
use crate::session::snapshot::codec::{In, Loaded, Out};

impl SendCredit {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self { used, limit } = *self;
        out.int(used);
        out.int(limit);
    }

    pub(in crate::session) fn load(input: &mut In) -> Loaded<Self> {
        Ok(Self { used: input.int()?, limit: input.int()? })
    }
}

impl RecvCredit {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self {
            charged,
            consumed,
            granted,
            window,
            mark: _,
            alarm: _,
            renewed: _,
            due: _,
            steady: _,
            over,
        } = *self;
        for value in [charged, consumed, granted, window] {
            out.int(value);
        }
        out.flag(over);
    }

    pub(in crate::session) fn load(input: &mut In) -> Loaded<Self> {
        let [charged, consumed] = [input.int()?, input.int()?];
        let [granted, window] = [input.int()?, input.at_most(WIDEST)?];
        let over = input.flag()?;
        let mut credit = Self { charged, consumed, granted, window, ..Self::new(0) };
        credit.alarm = granted;
        (credit.due, credit.over) = (!over, over);
        Ok(credit)
    }

    /// Counts data that was read as unread again.
    pub(in crate::session) fn take_back(&mut self, amount: u64) {
        self.consumed = self.consumed.saturating_sub(amount);
    }
}

impl ReceivedCredit {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        // A session that can be suspended has no early data any more.
        let Self { charged, consumed, early: _, is_early: _ } = *self;
        out.int(charged);
        out.int(consumed);
    }

    pub(in crate::session) fn load(input: &mut In) -> Loaded<Self> {
        Ok(Self { charged: input.int()?, consumed: input.int()?, ..Self::default() })
    }
}
