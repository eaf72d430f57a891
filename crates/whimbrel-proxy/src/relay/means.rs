//! The means to compress what goes to a peer and comes from it.

use std::sync::Arc;

use super::dictionaries::Dictionaries;
use crate::compress::{Budget, Dictionary, DictionaryId, Method, Share};

/// The dictionaries, and a peer's part of the memory for contexts. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CompressionMeans {
    dictionaries: Arc<Dictionaries>,
    memory: Budget,
}

impl CompressionMeans {
    /// The means of one peer, with a part of the `whole` memory.
    pub(super) fn new(dictionaries: Arc<Dictionaries>, whole: &Budget) -> Self {
        Self { dictionaries, memory: whole.of_peer() }
    }

    /// The dictionaries, which all peers share.
    pub(crate) fn dictionaries(&self) -> &Dictionaries {
        &self.dictionaries
    }

    /// Takes the memory for contexts with this method, and with this dictionary if it is there. `None`: there are too many.
    pub(super) fn take(
        &self,
        method: Method,
        wanted: Option<DictionaryId>,
    ) -> Option<(Option<Dictionary>, Share)> {
        let dictionary = wanted.and_then(|id| self.dictionaries.of_id(id));
        let share = self.memory.take(method, dictionary)?;
        Some((dictionary.cloned(), share))
    }

    /// The same, but `None` also if the dictionary is not there.
    pub(super) fn take_all(
        &self,
        method: Method,
        wanted: Option<DictionaryId>,
    ) -> Option<(Option<Dictionary>, Share)> {
        let is_there = wanted.is_none_or(|id| self.dictionaries.of_id(id).is_some());
        self.take(method, wanted).filter(|_| is_there)
    }
}
