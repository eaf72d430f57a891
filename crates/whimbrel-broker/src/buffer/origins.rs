//! The logs of all origins of a channel.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use whimbrel_pubsub::message::{BrokerId, Origin};

use super::origin_log::OriginLog;
use super::places::LogIndex;
use super::settings::ChannelSettings;
use crate::Time;

/// The most origins. Beyond, one is forgotten of which nothing is held. Those of which nothing ever came go first, then those of the broker with
/// the most, then the one that was silent for the longest. If something is held of all, the messages of one of the broker with the most give
/// way to those of another.
pub(super) const MOST_ORIGINS: usize = 512;

/// The logs, by index and by origin. The first is the broker's own.
#[derive(Debug)]
pub(super) struct Origins {
    logs: Vec<Option<Box<OriginLog>>>,
    by_origin: BTreeMap<Origin, LogIndex>,
    forgotten: u64,
}

impl Origins {
    pub(super) const OWN: LogIndex = LogIndex(0);

    pub(super) fn new(own: OriginLog) -> Self {
        let by_origin = BTreeMap::from([(own.origin, Self::OWN)]);
        Self { logs: vec![Some(Box::new(own))], by_origin, forgotten: 0 }
    }

    #[inline]
    pub(super) fn at(&self, index: LogIndex) -> Option<&OriginLog> {
        self.logs.get(index.place())?.as_deref()
    }

    pub(super) fn at_mut(&mut self, index: LogIndex) -> Option<&mut OriginLog> {
        self.logs.get_mut(index.place())?.as_deref_mut()
    }

    pub(super) fn find(&self, origin: Origin) -> Option<(LogIndex, &OriginLog)> {
        let index = *self.by_origin.get(&origin)?;
        Some((index, self.at(index)?))
    }

    pub(super) fn find_mut(&mut self, origin: Origin) -> Option<&mut OriginLog> {
        let index = *self.by_origin.get(&origin)?;
        self.at_mut(index)
    }

    /// The log of an origin, which is begun if it is new. `None` if there are too many.
    pub(super) fn entry(
        &mut self,
        origin: Origin,
        settings: &ChannelSettings,
        now: Time,
    ) -> Option<&mut OriginLog> {
        if !self.by_origin.contains_key(&origin) {
            let index = if self.is_full() {
                self.forget_one(origin.broker)?
            } else {
                self.logs.push(None);
                LogIndex(u32::try_from(self.logs.len() - 1).ok()?)
            };
            self.logs[index.place()] = Some(Box::new(OriginLog::new(origin, settings, now)));
            self.by_origin.insert(origin, index);
        }
        self.find_mut(origin)
    }

    pub(super) fn index_of(&self, origin: Origin) -> Option<LogIndex> {
        self.by_origin.get(&origin).copied()
    }

    pub(super) fn is_full(&self) -> bool {
        self.by_origin.len() >= MOST_ORIGINS
    }

    /// How often an origin was forgotten, so that its index is another's now.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The number of indices.
    pub(super) fn len(&self) -> usize {
        self.logs.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LogIndex, &OriginLog)> {
        self.by_origin.values().filter_map(|index| Some((*index, self.at(*index)?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OriginLog> {
        self.logs.iter_mut().filter_map(Option::as_deref_mut)
    }

    /// The run whose messages give way to those of another run, of `broker`: one of the broker that has the most, so that no broker takes the
    /// place of another, and of these the first by `age`. Peers have more right to a place than others.
    pub(super) fn to_give_up<T: Ord>(
        &self,
        broker: BrokerId,
        settings: &ChannelSettings,
        age: impl Fn(&OriginLog) -> T,
    ) -> Option<&OriginLog> {
        let runs = self.runs(broker);
        let others = self.iter().filter(|(index, _)| *index != Self::OWN).map(|(_, log)| log);
        others.min_by_key(|log| {
            let of = log.origin.broker;
            (Reverse(runs.get(&of).copied()), settings.peers.contains(&of), age(log), log.origin)
        })
    }

    /// Forgets an origin of which nothing is held for another one, of `broker`.
    fn forget_one(&mut self, broker: BrokerId) -> Option<LogIndex> {
        let runs = self.runs(broker);
        let idle = self.iter().filter(|(index, log)| *index != Self::OWN && log.held.is_empty());
        let (index, origin) = idle
            .min_by_key(|(_, log)| {
                let of_broker = runs.get(&log.origin.broker).copied();
                (!log.received.is_empty(), Reverse(of_broker), log.heard)
            })
            .map(|(index, log)| (index, log.origin))?;
        self.by_origin.remove(&origin);
        self.forgotten += 1;
        Some(index)
    }

    /// How many runs of each broker there are, with one more of `broker`.
    fn runs(&self, broker: BrokerId) -> BTreeMap<BrokerId, usize> {
        let mut runs = BTreeMap::from([(broker, 1)]);
        self.by_origin.keys().for_each(|origin| *runs.entry(origin.broker).or_default() += 1);
        runs
    }
}
