use crate::selector::{Reach, Selector, Span};

/// The most properties of a selector that are asked for terms.
const MAX_ASKED: usize = 16;

/// The most values and ranges of a term that is used. IN with more texts is not.
const MAX_PIECES: usize = 16;

/// The values of one property that a selector implies: one of these, or one in one of these ranges.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) name: Box<str>,
    pub(super) pieces: Box<[Piece]>,
}

/// A value or a range. No value is in two pieces of a term.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(Box<str>),
    Numbers(Span),
    Boolean(bool),
}

impl Term {
    /// The terms of a selector through which it can be found.
    pub(super) fn all_of(selector: &Selector) -> Vec<Self> {
        let mut names: Vec<&str> = Vec::new();
        for name in selector.names() {
            if names.len() < MAX_ASKED && !names.contains(&name) {
                names.push(name);
            }
        }
        names.into_iter().filter_map(|name| Self::of(name, &selector.implied(name))).collect()
    }

    /// `None`: the values are too many to be looked up.
    fn of(name: &str, reach: &Reach) -> Option<Self> {
        let texts = reach.texts()?;
        let is_narrow = reach.is_present() && !reach.allows_bytes() && !reach.allows_nan();
        let has_all = |span: &Span| span.low == f64::NEG_INFINITY && span.high == f64::INFINITY;
        if !is_narrow || texts.len() > MAX_PIECES || reach.numbers().iter().any(has_all) {
            return None;
        }
        let texts = texts.iter().map(|text| Piece::Text(text.clone()));
        let numbers = reach.numbers().iter().map(|span| Piece::Numbers(*span));
        let booleans = [false, true].into_iter().filter(|value| reach.allows(Some((*value).into())));
        let pieces: Box<[_]> = texts.chain(numbers).chain(booleans.map(Piece::Boolean)).collect();
        (pieces.len() <= MAX_PIECES).then(|| Self { name: name.into(), pieces })
    }

    /// How much such a term leaves, other things being equal; the least is the best.
    pub(super) fn rank(&self) -> u8 {
        let of = |piece: &Piece| match piece {
            Piece::Text(_) => 0,
            Piece::Numbers(span) if span.is_point() => 0,
            Piece::Numbers(span) if span.low.is_finite() && span.high.is_finite() => 1,
            Piece::Numbers(_) => 2,
            Piece::Boolean(_) => 3,
        };
        self.pieces.iter().map(of).max().unwrap_or(0)
    }
}
