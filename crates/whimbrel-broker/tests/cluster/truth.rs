//! Every message that any broker took.

use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::{Message, Origin, Publication, Stamp};

/// The name of a message.
pub(crate) type Name = (Origin, u64);

#[derive(Debug)]
pub(crate) struct Truth {
    pub(crate) stamp: Stamp,
    pub(crate) message: Message,
    /// When it was taken.
    pub(crate) at: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Truths {
    pub(crate) by_name: BTreeMap<Name, Truth>,
    pub(crate) names: BTreeMap<Publication, Vec<Name>>,
}

impl Truths {
    /// A broker took a message.
    pub(crate) fn take(&mut self, stamp: Stamp, message: Message, at: Duration) -> Result<(), String> {
        let name = (stamp.origin, stamp.sequence);
        if let Some(publication) = message.publication() {
            self.names.entry(publication).or_default().push(name);
        }
        match self.by_name.insert(name, Truth { stamp, message, at }) {
            None => Ok(()),
            Some(_) => Err(format!("the name {name:?} was given twice")),
        }
    }

    pub(crate) fn of(&self, origin: Origin, range: Range) -> impl Iterator<Item = (Name, &Truth)> {
        self.by_name.range((origin, range.first)..=(origin, range.last)).map(|(name, truth)| (*name, truth))
    }
}
