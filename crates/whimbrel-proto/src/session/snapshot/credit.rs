//! Credit: absolute sums, which the peer counts alike.

use super::{RecvCredit, SendCredit};
use crate::session::snapshot::codec::{In, Loaded, Out};
use crate::wire::VARINT_MAX;

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
        let Self { charged, consumed, granted, window, due: _ } = *self;
        for value in [charged, consumed, granted, window] {
            out.int(value);
        }
    }

    pub(in crate::session) fn load(input: &mut In) -> Loaded<Self> {
        let [charged, consumed] = [input.int()?, input.int()?];
        let [granted, window] = [input.int()?, input.at_most(VARINT_MAX / 4)?];
        Ok(Self { charged, consumed, granted, window, due: true })
    }

    /// What was read goes back unread.
    pub(in crate::session) fn take_back(&mut self, amount: u64) {
        self.consumed = self.consumed.saturating_sub(amount);
    }
}
