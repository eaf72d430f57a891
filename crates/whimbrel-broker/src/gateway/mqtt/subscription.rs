//! A client's subscription to one filter.

use std::sync::Arc;
use std::time::Instant;

use bytes::{BufMut, Bytes};
use tokio::sync::Notify;
use whimbrel_pubsub::coverage::{Coverage, Told};
use whimbrel_pubsub::frame::{Recover, Refusal, Slow, Start};
use whimbrel_pubsub::message::ChannelId;
use whimbrel_pubsub::topic::TopicFilter;

use super::codec::Qos;
use super::outgoing::Outgoing;
use super::state::Telling;
use crate::hub::{Attach, Attachment, Client, ClientId, Form, Hub, Progress, Promise, Sink};
use crate::selection::Selection;

/// The most arrivals that are looked at in one go.
const STEPS: u32 = 4_096;
/// Messages are read while fewer bytes wait for the client's socket.
pub(super) const ROOM: usize = 64 << 10;
/// The bytes that are written in one go for all who are alike.
const SHARED: usize = 4 << 10;

/// How a subscription's messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) qos: Qos,
    pub(super) no_local: bool,
    pub(super) as_published: bool,
    pub(super) identifier: Option<u32>,
}

/// A subscription that is asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) selection: Selection,
    pub(super) options: Options,
    pub(super) start: Start,
    pub(super) recover: Recover,
    /// Whether it gets last values.
    pub(super) wants_values: bool,
    /// Whether the client keeps the subscription's state.
    pub(super) is_semi_durable: bool,
}

/// A subscription of a session that is kept.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    selection: Selection,
    options: Options,
    coverage: Coverage,
    is_semi_durable: bool,
}

/// A subscription that is attached.
#[derive(Debug)]
pub(super) struct Subscription {
    selection: Selection,
    pub(super) options: Options,
    attachment: Attachment,
    /// Reads the last values once more, for a client that subscribed a second time.
    values: Option<Attachment>,
    wants_values: bool,
    telling: Option<Telling>,
    /// Whether there may be more to read, whoever wakes it.
    has_more: bool,
}

impl Parked {
    pub(super) fn bytes(&self) -> usize {
        let selector = self.selection.selector().map_or(0, |selector| selector.to_string().len() * 4);
        256 + self.selection.filter().as_str().len() + selector + self.coverage.encode().len() * 4
    }

    pub(super) fn filter(&self) -> &str {
        self.selection.filter().as_str()
    }

    pub(super) fn wanted(self) -> Wanted {
        let Self { selection, options, coverage, is_semi_durable } = self;
        let start = Start::Coverage(coverage);
        Wanted { selection, options, start, recover: Recover::First, wants_values: true, is_semi_durable }
    }
}

impl Subscription {
    pub(super) fn attach(
        hub: &Arc<Hub>,
        (client, known): (ClientId, &Arc<Client>),
        wanted: Wanted,
        form: Form,
        notify: &Arc<Notify>,
    ) -> Result<Self, Refusal> {
        let Wanted { selection, options, start, recover, wants_values, is_semi_durable } = wanted;
        let (selected, slow) = (selection.clone(), Slow::Wait);
        let attach = Attach { selection: selected, recover, slow, start, state: None, form };
        let mut attachment = hub.attach_with(client, attach, Arc::clone(notify))?;
        attachment.introduce(known, if is_semi_durable { Promise::SemiDurable } else { Promise::Nondurable });
        let telling = is_semi_durable.then(|| Telling::new(hub.name().cluster));
        Ok(Self { selection, options, attachment, values: None, wants_values, telling, has_more: true })
    }

    /// Whether both select the same, so that the subscription only has to be changed.
    pub(super) fn is_of(&self, selection: &Selection) -> bool {
        let text = |selection: &Selection| selection.selector().map(ToString::to_string);
        text(&self.selection) == text(selection)
    }

    /// Sends differently from now on. With `values`, the last values are sent again.
    pub(super) fn change(&mut self, options: Options, values: Option<Attachment>) {
        self.options = options;
        self.values = values;
    }

    pub(super) fn filter(&self) -> &TopicFilter {
        self.selection.filter()
    }

    pub(super) fn coverage(&self) -> Coverage {
        self.attachment.coverage()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.has_more || self.attachment.is_ready() || self.values.is_some()
    }

    /// Whether the client has room for another message.
    pub(super) fn may_send(&self, outgoing: &Outgoing) -> bool {
        has_room(&self.options, outgoing)
    }

    /// Reads what there is, as far as the client has room.
    pub(super) async fn read(&mut self, hub: &Hub, outgoing: &mut Outgoing) {
        self.read_values(hub, outgoing);
        if !self.may_send(outgoing) {
            return;
        }
        let is_recovering = self.attachment.is_recovering();
        let turn = if is_recovering { Some(hub.turns().begin().await) } else { None };
        let began = Instant::now();
        let progress = self.read_on(hub, outgoing);
        if let Some(turn) = turn {
            hub.turns().end(turn, began.elapsed()).await;
        }
        self.has_more = progress == Progress::More;
        if progress == Progress::Idle
            && let Some(telling) = &mut self.telling
        {
            telling.tell_news(&self.attachment, &self.selection, &self.options, &mut outgoing.out);
        }
    }

    fn read_on(&mut self, hub: &Hub, outgoing: &mut Outgoing) -> Progress {
        let wall_ms = hub.clock().now().wall_ms;
        let (options, wants_values) = (self.options, self.wants_values);
        let Some(telling) = &mut self.telling else {
            let mut sink = Plain { options, wants_values, outgoing, wall_ms, shared: 0 };
            return self.attachment.read(true, STEPS, &mut sink);
        };
        loop {
            let mut delivered = None;
            let mut sink = |_: ChannelId, told: Told| match told {
                Told::Delivery(delivery) if delivery.retained && !wants_values => true,
                // What is covered up to here goes with the message.
                Told::Delivery(delivery) => {
                    delivered = Some(delivery);
                    false
                }
                told => {
                    telling.heard(&told);
                    true
                }
            };
            let progress = self.attachment.read(true, STEPS, &mut sink);
            let Some(delivery) = delivered else { return progress };
            let coverage = telling.with_delivery(&self.attachment);
            outgoing.deliver(&options, delivery, coverage, None, wall_ms);
            if !has_room(&options, outgoing) {
                return Progress::More;
            }
        }
    }

    /// Sends last values again.
    fn read_values(&mut self, hub: &Hub, outgoing: &mut Outgoing) {
        let Some(values) = &mut self.values else { return };
        let (wall_ms, options) = (hub.clock().now().wall_ms, self.options);
        let mut sink = |_: ChannelId, told: Told| match told {
            Told::Delivery(delivery) if delivery.retained => {
                outgoing.deliver(&options, delivery, None, None, wall_ms);
                has_room(&options, outgoing)
            }
            _ => true,
        };
        let progress = values.read(true, STEPS, &mut sink);
        if progress != Progress::More {
            self.values = None;
        }
    }

    /// Has what is covered told without a message, if that is due.
    pub(super) fn tell_coverage(&mut self, outgoing: &mut Outgoing) {
        if let Some(telling) = &mut self.telling {
            telling.tell_coverage(&self.attachment, &self.selection, &self.options, &mut outgoing.out);
        }
    }

    /// Returns the subscription as it is kept while the client is away.
    pub(super) fn park(self) -> Parked {
        let coverage = self.attachment.coverage();
        let is_semi_durable = self.telling.is_some();
        Parked { selection: self.selection, options: self.options, coverage, is_semi_durable }
    }
}

pub(super) fn has_room(options: &Options, outgoing: &Outgoing) -> bool {
    outgoing.out.len() < outgoing.room() && (options.qos == Qos::AtMostOnce || outgoing.has_window())
}

/// Sends messages to a client that does not keep a state.
struct Plain<'a> {
    options: Options,
    wants_values: bool,
    outgoing: &'a mut Outgoing,
    wall_ms: u64,
    /// Where what is shared begins.
    shared: usize,
}

impl Plain<'_> {
    /// Whether packets are those of every other client with the same version.
    fn is_usual(&self) -> bool {
        let Options { qos, no_local, as_published, identifier } = self.options;
        let is_plain = !no_local && !as_published && identifier.is_none();
        qos == Qos::AtMostOnce && is_plain && self.outgoing.out.takes_any_length()
    }
}

impl Sink for Plain<'_> {
    fn tell(&mut self, _: ChannelId, told: Told) -> bool {
        if let Told::Delivery(delivery) = told
            && (self.wants_values || !delivery.retained)
        {
            self.outgoing.deliver(&self.options, delivery, None, None, self.wall_ms);
            return has_room(&self.options, self.outgoing);
        }
        true
    }

    fn shares(&self) -> bool {
        self.is_usual()
    }

    fn begin(&mut self) {
        self.shared = self.outgoing.out.len();
    }

    fn is_whole(&self) -> bool {
        self.outgoing.out.len() >= self.shared + SHARED
    }

    fn end(&mut self) -> Option<Vec<Bytes>> {
        let written = self.outgoing.out.bytes().get(self.shared..)?;
        Some(vec![Bytes::copy_from_slice(written)])
    }

    fn repeat(&mut self, bytes: &[Bytes]) -> bool {
        bytes.iter().for_each(|bytes| self.outgoing.out.bytes().put_slice(bytes));
        has_room(&self.options, self.outgoing)
    }
}
