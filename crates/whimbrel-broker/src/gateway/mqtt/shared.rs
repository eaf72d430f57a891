//! A client's seat in a group, which shares the messages of one filter.

use std::sync::Arc;

use tokio::sync::Notify;
use whimbrel_pubsub::frame::Refusal;
use whimbrel_pubsub::topic::TopicFilter;

use super::in_flight::Due;
use super::options::Options;
use super::outgoing::Outgoing;
use super::stored::Line;
use crate::hub::{ClientId, Hub, Seat, UserId};
use crate::selection::Selection;

/// A subscription of a client to `$share/GROUP/FILTER`. It is kept with the session: the group waits for a member that is away if there is
/// nobody else.
#[derive(Debug)]
pub(super) struct Shared {
    selection: Selection,
    options: Options,
    seat: Seat,
}

impl Shared {
    pub(super) fn join(
        hub: &Arc<Hub>,
        client: (ClientId, UserId),
        group: &str,
        selection: Selection,
        options: Options,
        notify: &Arc<Notify>,
    ) -> Result<Self, Refusal> {
        let seat = hub.join(client, group, selection.clone(), Arc::clone(notify))?;
        Ok(Self { selection, options, seat })
    }

    pub(super) fn filter(&self) -> &TopicFilter {
        self.selection.filter()
    }

    /// The subscription as it is kept on disk.
    pub(super) fn line(&self, text: &str) -> Line {
        Line { text: text.to_owned(), selection: self.selection.clone(), options: self.options }
    }

    /// Sends differently from now on, if the selection is the same.
    pub(super) fn change(&mut self, selection: &Selection, options: Options) -> bool {
        let text = |selection: &Selection| selection.selector().map(ToString::to_string);
        let is_same = text(&self.selection) == text(selection);
        if is_same {
            self.options = options;
        }
        is_same
    }

    pub(super) fn is_ready(&self, outgoing: &Outgoing) -> bool {
        outgoing.has_room(&self.options) && self.seat.is_ready()
    }

    /// Sends what is there for this member, as far as the client has room.
    pub(super) fn read(&mut self, wall_ms: u64, outgoing: &mut Outgoing) {
        while outgoing.has_room(&self.options)
            && let Some((_, delivery, receipt)) = self.seat.take()
        {
            outgoing.deliver(&self.options, delivery, None, Due::Group(receipt), wall_ms);
        }
    }

    /// The client is away.
    pub(super) fn park(mut self) -> Self {
        self.seat.go_away();
        self
    }

    /// The client is back.
    pub(super) fn resume(&mut self, notify: &Arc<Notify>) {
        self.seat.come_back(Arc::clone(notify));
    }

    /// About how many bytes it takes while the client is away, with the task of a group that has no other member.
    pub(super) fn bytes(&self) -> usize {
        4_096 + self.selection.filter().as_str().len()
    }
}
