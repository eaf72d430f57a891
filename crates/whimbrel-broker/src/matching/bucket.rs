use std::collections::{BTreeMap, BTreeSet};

use whimbrel_pubsub::property::{Lookup, Value};

use super::ranges::Ranges;
use super::term::{Piece, Term};
use crate::selector::promoted;

/// The subscriptions with one filter, as slots.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// Those without a selector.
    all: BTreeSet<u32>,
    /// Those with a term, by its property.
    terms: BTreeMap<Box<str>, Values>,
    /// Those whose selector is always evaluated.
    scanned: BTreeSet<u32>,
}

/// Subscriptions by the values of one property.
#[derive(Debug, Default)]
struct Values {
    texts: BTreeMap<Box<str>, BTreeSet<u32>>,
    numbers: Ranges,
    booleans: BTreeMap<bool, BTreeSet<u32>>,
}

/// Where in a bucket a subscription is.
#[derive(Debug)]
pub(super) enum Place {
    All,
    Term(Term),
    Scanned,
}

impl Bucket {
    /// Chooses the term that leaves the fewest others to be evaluated, as the bucket is now. `None`: there is no term.
    pub(super) fn choose(&self, terms: Vec<Term>) -> Option<Term> {
        terms.into_iter().min_by_key(|term| (self.crowd(term), term.rank()))
    }

    fn crowd(&self, term: &Term) -> usize {
        let Some(values) = self.terms.get(&term.name) else { return 0 };
        term.pieces.iter().map(|piece| values.crowd(piece)).max().unwrap_or(0)
    }

    pub(super) fn insert(&mut self, place: &Place, slot: u32) {
        match place {
            Place::All => {
                self.all.insert(slot);
            }
            Place::Scanned => {
                self.scanned.insert(slot);
            }
            // A selector that is never true has a term without pieces, and is nowhere.
            Place::Term(term) if term.pieces.is_empty() => {}
            Place::Term(term) => {
                let values = self.terms.entry(term.name.clone()).or_default();
                term.pieces.iter().for_each(|piece| values.insert(piece, slot));
            }
        }
    }

    pub(super) fn remove(&mut self, place: &Place, slot: u32) {
        match place {
            Place::All => {
                self.all.remove(&slot);
            }
            Place::Scanned => {
                self.scanned.remove(&slot);
            }
            Place::Term(term) => {
                let Some(values) = self.terms.get_mut(&term.name) else { return };
                term.pieces.iter().for_each(|piece| values.remove(piece, slot));
                if values.is_empty() {
                    self.terms.remove(&term.name);
                }
            }
        }
    }

    /// Shows those that take every message, and those that may take this one: `true` for the latter, which have to be evaluated.
    pub(super) fn each(&self, message: &(impl Lookup + ?Sized), mut see: impl FnMut(u32, bool)) {
        self.all.iter().for_each(|slot| see(*slot, false));
        self.scanned.iter().for_each(|slot| see(*slot, true));
        if self.terms.is_empty() {
            return;
        }
        let mut look = |name: &str, value: Value<'_>| {
            if let Some(values) = self.terms.get(name) {
                values.each(value, &mut |slot| see(slot, true));
            }
        };
        // Whichever are fewer: what the message has, or what is asked for.
        if let (1, Some((name, values))) = (self.terms.len(), self.terms.first_key_value()) {
            if let Some(value) = message.property(name) {
                values.each(value, &mut |slot| see(slot, true));
            }
        } else {
            message.each_property(&mut look);
        }
    }

    /// Whether some of its subscriptions have a selector that may take a message.
    pub(super) fn has_selectors(&self) -> bool {
        !self.terms.is_empty() || !self.scanned.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.terms.is_empty() && self.scanned.is_empty()
    }

    /// The number of entries, of which a subscription may have several.
    pub(super) fn len(&self) -> usize {
        self.all.len() + self.scanned.len() + self.terms.values().map(Values::len).sum::<usize>()
    }
}

impl Values {
    fn insert(&mut self, piece: &Piece, slot: u32) {
        match piece {
            Piece::Text(text) => {
                self.texts.entry(text.clone()).or_default().insert(slot);
            }
            Piece::Numbers(span) => self.numbers.insert(*span, slot),
            Piece::Boolean(value) => {
                self.booleans.entry(*value).or_default().insert(slot);
            }
        }
    }

    fn remove(&mut self, piece: &Piece, slot: u32) {
        match piece {
            Piece::Text(text) => remove_from(&mut self.texts, text, slot),
            Piece::Numbers(span) => self.numbers.remove(*span, slot),
            Piece::Boolean(value) => remove_from(&mut self.booleans, value, slot),
        }
    }

    fn crowd(&self, piece: &Piece) -> usize {
        match piece {
            Piece::Text(text) => self.texts.get(text).map_or(0, BTreeSet::len),
            Piece::Numbers(span) => self.numbers.crowd(*span),
            Piece::Boolean(value) => self.booleans.get(value).map_or(0, BTreeSet::len),
        }
    }

    fn each(&self, value: Value<'_>, see: &mut dyn FnMut(u32)) {
        match value {
            Value::Text(text) => self.texts.get(text).into_iter().flatten().for_each(|slot| see(*slot)),
            Value::Boolean(value) => {
                self.booleans.get(&value).into_iter().flatten().for_each(|slot| see(*slot))
            }
            Value::Integer(_) | Value::Float(_) => {
                promoted(value).into_iter().flat_map(|number| self.numbers.containing(number)).for_each(see);
            }
            Value::Bytes(_) => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.numbers.is_empty() && self.booleans.is_empty()
    }

    fn len(&self) -> usize {
        let texts: usize = self.texts.values().map(BTreeSet::len).sum();
        texts + self.numbers.len() + self.booleans.values().map(BTreeSet::len).sum::<usize>()
    }
}

/// Removes a slot from a set, and the set if it was the last.
pub(super) fn remove_from<K, Q>(sets: &mut BTreeMap<K, BTreeSet<u32>>, key: &Q, slot: u32)
where
    K: Ord + std::borrow::Borrow<Q>,
    Q: Ord + ?Sized,
{
    let Some(set) = sets.get_mut(key) else { return };
    set.remove(&slot);
    if set.is_empty() {
        sets.remove(key);
    }
}
