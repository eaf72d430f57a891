//! Saving messages that wait to be sent.

use super::{Lane, LaneState, Outbox, SendItem};
use crate::Time;
use crate::session::numbers::{Domain, LaneSlot, TagSlot};
use crate::session::snapshot::codec::{BROKEN, In, Loaded, Out};

/// A saved lane.
pub(in crate::session) struct SavedLane {
    pub(in crate::session) domain: Domain,
    pub(in crate::session) priority: Option<u8>,
    pub(in crate::session) tag: TagSlot,
    pub(in crate::session) bytes: bool,
    pub(in crate::session) partial: Option<u64>,
    pub(in crate::session) items: Vec<SendItem>,
}

impl Lane {
    /// Saves the lane. Gathered messages must have been moved to the queue.
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        out.byte(self.key.domain.0);
        out.optional_int(self.priority.map(u64::from));
        out.int(u64::from(self.tag.0));
        out.flag(self.bytes);
        out.optional_int(self.partial);
        let live: Vec<&SendItem> = self.queue.iter().filter(|item| !item.is_dead()).collect();
        out.list(live.into_iter(), |out, item| item.save(out));
    }
}

impl SavedLane {
    pub(in crate::session) fn load(input: &mut In, tags: usize) -> Loaded<Self> {
        let domain = Domain(input.byte()?);
        let priority = input.option(|input| Ok(input.at_most(255)? as u8))?;
        let tag = TagSlot(input.small()?);
        if tag != TagSlot::NONE && tag.index() >= tags {
            return Err(BROKEN);
        }
        let (bytes, partial) = (input.flag()?, input.optional_int()?);
        let mut items = Vec::new();
        input.list(|input| {
            let item = SendItem::load(input, 0, tags)?;
            if !item.is_live() {
                return Err(BROKEN);
            }
            items.push(item);
            Ok(())
        })?;
        Ok(Self { domain, priority, tag, bytes, partial, items })
    }
}

impl Outbox {
    pub(in crate::session) fn settle_all(&mut self) {
        self.lanes.iter_mut().for_each(Lane::settle);
    }

    /// Appends a message that waited when the session was saved.
    pub(in crate::session) fn put_back(&mut self, now: Time, slot: LaneSlot, item: SendItem) {
        self.messages += item.count as usize;
        self.bytes += u64::from(item.length);
        let lane = &mut self.lanes[slot.index()];
        lane.live += item.count as usize;
        lane.count_priority(item.priority, item.count, true);
        lane.queue.push_back(item);
        if lane.state == LaneState::Idle {
            self.activate(now, slot);
        }
    }
}
