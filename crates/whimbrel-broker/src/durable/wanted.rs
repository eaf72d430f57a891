//! The messages that durable subscriptions still want.

use whimbrel_pubsub::coverage::{Range, Ranges};

use crate::mutants::{Mutant, planted};

/// Returns the part of a range that some subscription does not cover. `covered` has the coverage of each subscription, if it has any.
pub fn wanted<'a>(range: Range, covered: impl Iterator<Item = Option<&'a Ranges>>) -> Ranges {
    let mut wanted = Ranges::default();
    for covered in covered.skip(usize::from(planted(Mutant::SegmentDroppedTooEarly))) {
        match covered {
            Some(covered) => covered.gaps(range).for_each(|gap| wanted.insert(gap)),
            None => wanted.insert(range),
        }
        if wanted.covers(range) {
            break;
        }
    }
    wanted
}
