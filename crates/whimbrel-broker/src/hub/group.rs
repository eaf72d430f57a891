//! A group of subscribers that share their messages: each message goes to one of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::Delivery;
use whimbrel_pubsub::message::ChannelId;

use super::seats::Counted;

/// A message for a group, with its channel.
type Item = (ChannelId, Delivery);

/// The most messages that a member has and has not settled.
pub(super) const MOST_UNSETTLED: usize = 64;
/// The most bytes of them, the last one not counted.
const MOST_UNSETTLED_BYTES: usize = 1 << 20;

/// The members of a group, and the messages that are theirs to settle.
#[derive(Debug, Default)]
pub(super) struct Group {
    inner: Mutex<Inner>,
    /// Wakes the task that reads for the group.
    pub(super) notify: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    members: BTreeMap<u64, Member>,
    /// Messages of members that left, for whoever has room first.
    returned: VecDeque<Item>,
    last: u64,
    /// The member that got the last message.
    turn: u64,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Member {
    /// Wakes the member. `None`: it is away, and gets nothing.
    notify: Option<Arc<Notify>>,
    inbox: VecDeque<Item>,
    unsettled: usize,
    bytes: usize,
}

/// A member's place in a group. Dropping it leaves the group.
#[derive(Debug)]
pub struct Seat {
    group: Arc<Group>,
    number: u64,
    _counted: Counted,
}

/// A message that its member has to settle. Otherwise, dropping it gives the message to another member.
#[derive(Debug)]
pub struct Receipt {
    group: Arc<Group>,
    number: u64,
    item: Option<Item>,
}

impl Group {
    /// Adds a member. Fails if the group has ended.
    pub(super) fn join(self: &Arc<Self>, notify: Arc<Notify>, counted: Counted) -> Result<Seat, Counted> {
        let mut inner = self.inner();
        if inner.is_closed {
            return Err(counted);
        }
        inner.last += 1;
        let number = inner.last;
        inner.members.insert(number, Member { notify: Some(notify), ..Member::default() });
        self.notify.notify_one();
        Ok(Seat { group: Arc::clone(self), number, _counted: counted })
    }

    /// Ends the group if it has no member, not even one that is away.
    pub(super) fn close_if_empty(&self) -> bool {
        let mut inner = self.inner();
        inner.is_closed = inner.members.is_empty();
        inner.is_closed
    }

    /// The number of messages for which there is room.
    pub(super) fn room(&self) -> usize {
        let inner = self.inner();
        inner.members.values().map(Member::room).sum::<usize>().saturating_sub(inner.returned.len())
    }

    /// Gives messages to members: those that came back first, then these, each to the member that has the fewest.
    pub(super) fn hand_out(&self, items: impl IntoIterator<Item = Item>) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        inner.returned.extend(items);
        while !inner.returned.is_empty() {
            let turn = inner.turn;
            let fewest = inner.members.iter().filter(|(_, member)| member.room() > 0);
            // Of those that have the same, the one behind the last is next.
            let fewest =
                fewest.min_by_key(|(number, member)| (member.unsettled, number.wrapping_sub(turn + 1)));
            let Some(number) = fewest.map(|(number, _)| *number) else { return };
            let Some((member, item)) = inner.members.get_mut(&number).zip(inner.returned.pop_front()) else {
                return;
            };
            inner.turn = number;
            member.give(item);
        }
    }

    /// A member is done with a message.
    fn settle(&self, number: u64, item: &Item) {
        if let Some(member) = self.inner().members.get_mut(&number) {
            member.unsettled -= 1;
            member.bytes -= bytes_of(item);
        }
        self.notify.notify_one();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Takes back messages in front of those that came back before.
    fn take_back(&mut self, items: VecDeque<Item>) {
        for item in items.into_iter().rev() {
            self.returned.push_front(item);
        }
    }
}

impl Member {
    fn room(&self) -> usize {
        if self.notify.is_none() || self.bytes >= MOST_UNSETTLED_BYTES {
            return 0;
        }
        MOST_UNSETTLED.saturating_sub(self.unsettled)
    }

    fn give(&mut self, item: Item) {
        self.unsettled += 1;
        self.bytes += bytes_of(&item);
        self.inbox.push_back(item);
        if let Some(notify) = &self.notify {
            notify.notify_one();
        }
    }

    /// Takes what it did not look at away from it.
    fn empty(&mut self) -> VecDeque<Item> {
        let inbox = std::mem::take(&mut self.inbox);
        self.unsettled -= inbox.len();
        self.bytes -= inbox.iter().map(bytes_of).sum::<usize>();
        inbox
    }
}

fn bytes_of((_, delivery): &Item) -> usize {
    delivery.message.encoded().len()
}

impl Seat {
    /// The next message with its channel, and what settles it.
    pub fn take(&mut self) -> Option<(ChannelId, Delivery, Receipt)> {
        let item = self.group.inner().members.get_mut(&self.number)?.inbox.pop_front()?;
        let (group, (channel, delivery)) = (Arc::clone(&self.group), item.clone());
        Some((channel, delivery, Receipt { group, number: self.number, item: Some(item) }))
    }

    /// Whether there is a message.
    pub fn is_ready(&self) -> bool {
        self.group.inner().members.get(&self.number).is_some_and(|member| !member.inbox.is_empty())
    }

    /// The member goes away and keeps its seat: the group waits for it if there is nobody else. What it did not look at goes to others.
    pub fn go_away(&mut self) {
        let mut inner = self.group.inner();
        if let Some(member) = inner.members.get_mut(&self.number) {
            member.notify = None;
            let inbox = member.empty();
            inner.take_back(inbox);
        }
        drop(inner);
        self.group.notify.notify_one();
    }

    /// The member is back.
    pub fn come_back(&mut self, notify: Arc<Notify>) {
        if let Some(member) = self.group.inner().members.get_mut(&self.number) {
            member.notify = Some(notify);
        }
        self.group.notify.notify_one();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = self.group.inner();
        if let Some(mut member) = inner.members.remove(&self.number) {
            let inbox = member.empty();
            inner.take_back(inbox);
        }
        drop(inner);
        self.group.notify.notify_one();
    }
}

impl Receipt {
    /// The member has the message.
    pub fn settle(mut self) {
        if let Some(item) = self.item.take() {
            self.group.settle(self.number, &item);
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            self.group.settle(self.number, &item);
            self.group.inner().returned.push_front(item);
            self.group.notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::coverage::{Cover, Range};
    use whimbrel_pubsub::message::{BrokerId, Draft, Hlc, Origin, PartitionId, Stamp};

    use super::super::seats::Seats;
    use super::*;

    fn join(group: &Arc<Group>) -> Result<Seat, Counted> {
        group.join(Arc::default(), Arc::<Seats>::default().take(0).unwrap())
    }

    fn delivery(sequence: u64) -> Item {
        let message = Draft { topic: "t", ..Draft::default() }.finish().unwrap();
        let origin = Origin { broker: BrokerId(1), epoch: 1 };
        let stamp =
            Stamp { origin, sequence, partition: PartitionId(0), ordinal: sequence, published: Hlc::at(1) };
        let cover = Cover { origin, range: Range::new(sequence, sequence).unwrap() };
        (ChannelId(0), Delivery { cover, stamp, message, recovered: false, late: false, retained: false })
    }

    fn take(seat: &mut Seat) -> (Vec<u64>, Vec<Receipt>) {
        std::iter::from_fn(|| seat.take())
            .map(|(_, delivery, receipt)| (delivery.stamp.sequence, receipt))
            .unzip()
    }

    #[test]
    fn messages_go_round_and_those_of_who_leaves_go_to_others() {
        let group = Arc::<Group>::default();
        let mut seats: Vec<_> = (0..3).map(|_| join(&group).unwrap()).collect();
        group.hand_out((0..6).map(delivery));
        let (first, receipts) = take(&mut seats[0]);
        let (second, kept) = take(&mut seats[1]);
        assert_eq!((first, second), (vec![0, 3], vec![1, 4]));
        receipts.into_iter().for_each(Receipt::settle);
        // The third did not look at its own, and the second leaves with what it had.
        drop(seats.pop());
        drop((seats.pop(), kept));
        group.hand_out([delivery(6)]);
        let (mut rest, receipts) = take(&mut seats[0]);
        rest.sort_unstable();
        assert_eq!(rest, [1, 2, 4, 5, 6]);
        receipts.into_iter().for_each(Receipt::settle);
        assert_eq!(group.room(), MOST_UNSETTLED);
        assert!(!group.close_if_empty());
        drop(seats);
        assert!(group.close_if_empty() && join(&group).is_err());
    }

    #[test]
    fn a_slow_member_gets_less_and_one_that_is_away_nothing() {
        let group = Arc::<Group>::default();
        let (mut slow, mut quick) = (join(&group).unwrap(), join(&group).unwrap());
        let most = MOST_UNSETTLED as u64;
        group.hand_out((0..2 * most).map(delivery));
        assert_eq!(group.room(), 0);
        let (_, receipts) = take(&mut quick);
        receipts.into_iter().for_each(Receipt::settle);
        group.hand_out((0..most).map(delivery));
        assert_eq!(take(&mut quick).0.len(), MOST_UNSETTLED);
        slow.go_away();
        assert!(!slow.is_ready());
        group.hand_out([]);
        assert_eq!(
            take(&mut quick).0.len(),
            MOST_UNSETTLED,
            "its own went back, and the others were given back"
        );
        drop(quick);
        assert_eq!(group.room(), 0);
        assert!(!group.close_if_empty(), "it may come back");
        slow.come_back(Arc::default());
        group.hand_out([]);
        assert!(slow.is_ready());
    }
}
