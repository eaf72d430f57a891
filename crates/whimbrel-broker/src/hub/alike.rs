//! Subscriptions that are alike: they select the same, and are told in the same form.
//!
//! The bytes that one of them was told on its way through a stretch of arrivals are kept for a while. Others that come to the same place take
//! the bytes. So a message is looked at and encoded once for all of a kind, and not for each subscription.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use whimbrel_pubsub::coverage::Told;
use whimbrel_pubsub::message::ChannelId;

use crate::buffer::Channel;
use crate::roaming::{Passage, Reader};
use crate::selection::Selection;

/// The most passages that are kept for those who are alike. Beyond, the oldest goes.
const MOST_PASSAGES: usize = 64;
/// The most bytes of a passage that is kept. Long messages are encoded for each subscription, which costs little beside sending them.
const MOST_BYTES: usize = 16 << 10;

/// The form in which a gateway tells things. The same number means the same bytes for the same things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form(pub u64);

/// Something to which a subscription is told what it reads.
pub trait Sink {
    /// Takes something. Returns whether more may be told.
    fn tell(&mut self, channel: ChannelId, told: Told) -> bool;

    /// Whether it tells what others who are alike tell.
    fn shares(&self) -> bool {
        false
    }

    /// Things that come now may be shared, until [`Sink::end`]. It depends on nothing that was told before.
    fn begin(&mut self) {}

    /// Whether it is time to end what is shared: when about a packet is full.
    fn is_whole(&self) -> bool {
        false
    }

    /// Ends what is shared. Returns its bytes. `None`: there are none that others could use.
    fn end(&mut self) -> Option<Vec<Bytes>> {
        None
    }

    /// Takes the bytes of another. Returns whether more may be told.
    fn repeat(&mut self, bytes: &[Bytes]) -> bool {
        let _ = bytes;
        true
    }
}

impl<F: FnMut(ChannelId, Told) -> bool> Sink for F {
    fn tell(&mut self, channel: ChannelId, told: Told) -> bool {
        self(channel, told)
    }
}

/// A passage, and what was told on it.
#[derive(Debug)]
pub(super) struct Shared {
    passage: Passage,
    bytes: Vec<Bytes>,
    /// Whether a later one from the same place would not have more.
    is_whole: bool,
}

/// Subscriptions of a channel that are alike.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// By the arrival with which they begin.
    passages: Mutex<BTreeMap<u64, Arc<Shared>>>,
}

/// All that are attached, by what makes them alike.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    kinds: BTreeMap<(ChannelId, String, Option<String>, Form), Weak<Alike>>,
    /// Above so many, those that are over are taken out.
    most: usize,
}

impl Kinds {
    /// Those of a channel who select the same in the same form.
    pub(super) fn of(&mut self, channel: ChannelId, selection: &Selection, form: Form) -> Arc<Alike> {
        let selector = selection.selector().map(ToString::to_string);
        let key = (channel, selection.filter().as_str().to_owned(), selector, form);
        if let Some(alike) = self.kinds.get(&key).and_then(Weak::upgrade) {
            return alike;
        }
        if self.kinds.len() >= self.most {
            self.kinds.retain(|_, alike| alike.strong_count() > 0);
            self.most = 64.max(2 * self.kinds.len());
        }
        let alike = Arc::<Alike>::default();
        self.kinds.insert(key, Arc::downgrade(&alike));
        alike
    }
}

impl Alike {
    /// Whether there is anybody to share with.
    pub(super) fn are_several(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// Lets `reader` take what others were told where it stands. Returns that.
    pub(super) fn pass(&self, channel: &Channel, reader: &mut Reader) -> Option<Arc<Shared>> {
        let from = reader.tail();
        let shared = self.passages().get(&from).cloned()?;
        // One that is short is made anew once there is much more.
        let is_stale = !shared.is_whole && channel.end() - from >= 2 * shared.passage.arrivals();
        (!is_stale && reader.pass(channel, &shared.passage)).then_some(shared)
    }

    /// Keeps a passage for others. Few keep few.
    pub(super) fn keep(self: &Arc<Self>, passage: Passage, bytes: Vec<Bytes>, is_whole: bool) {
        if bytes.iter().map(Bytes::len).sum::<usize>() > MOST_BYTES {
            return;
        }
        let most = Arc::strong_count(self).min(MOST_PASSAGES);
        let from = passage.from();
        let mut passages = self.passages();
        passages.insert(from, Arc::new(Shared { passage, bytes, is_whole }));
        while passages.len() > most {
            passages.pop_first();
        }
    }

    fn passages(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Arc<Shared>>> {
        self.passages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    pub(super) fn deliveries(&self) -> u64 {
        self.passage.deliveries()
    }

    pub(super) fn bytes(&self) -> &[Bytes] {
        &self.bytes
    }
}
