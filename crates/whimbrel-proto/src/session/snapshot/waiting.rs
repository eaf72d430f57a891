//! Saving messages behind a gap.

use super::{HeldBack, Parked, Unread};
use crate::Time;
use crate::session::message::Message;

/// One message. Runs are taken apart into these.
pub(in crate::session) struct One {
    pub(in crate::session) message: Message,
    pub(in crate::session) latest_reliable: u64,
    pub(in crate::session) since: Time,
}

impl HeldBack {
    /// Returns the messages in order of number.
    pub(in crate::session) fn in_order(&self) -> Vec<One> {
        let mut all: Vec<&Parked> = self.map.values().chain(self.queue.iter()).collect();
        all.sort_unstable_by_key(|parked| parked.number());
        all.into_iter().flat_map(Parked::apart).collect()
    }
}

impl Parked {
    fn apart(&self) -> Vec<One> {
        let (first, latest, since) = (self.number(), self.latest_reliable, self.since);
        let one = |message: Message| {
            // In a run of reliable messages, each follows a reliable one.
            let follows = message.id > first && message.service.is_reliable();
            One { latest_reliable: if follows { message.id } else { latest }, message, since }
        };
        match self.unread.clone() {
            Unread::One(message) => vec![one(message)],
            Unread::Run(mut run) => run.take(usize::MAX).map(one).collect(),
        }
    }
}
