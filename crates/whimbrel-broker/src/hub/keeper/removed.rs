//! Messages that have been removed from a log.

use std::collections::BTreeMap;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::Origin;

use crate::hub::room::Room;
use crate::store::Meta;

/// Returns the messages of each origin that the log had, and has no more. Of earlier runs of this broker these are all that are older than
/// what is held: they were stored and removed in the order of their sequences.
pub(super) fn removed(meta: &Meta, room: &Room, held: &BTreeMap<Origin, Ranges>) -> BTreeMap<Origin, Ranges> {
    let mut removed = room.logging().stored().removed(held);
    let own: Origin = room.own();
    let is_former = |origin: &Origin| origin.broker == own.broker && origin.epoch != own.epoch;
    for (origin, highest) in meta.seen(room.id()).into_iter().filter(|(origin, _)| is_former(origin)) {
        let lowest = held.get(&origin).and_then(|ranges| ranges.iter().next()).map(|range| range.first);
        let last = lowest.map_or(highest, |lowest| lowest - 1);
        Range::new(1, last).into_iter().for_each(|range| removed.entry(origin).or_default().insert(range));
    }
    removed
}
