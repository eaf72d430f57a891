//! A client's subscription to one filter.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::{Coverage, Told};
use whimbrel_pubsub::frame::{Recover, Refusal, Slow, Start};
use whimbrel_pubsub::message::ChannelId;
use whimbrel_pubsub::topic::TopicFilter;

use super::acknowledged::Acknowledged;
use super::codec::Qos;
use super::durable::Durable;
use super::in_flight::Due;
use super::options::{Options, Wanted};
use super::outgoing::Outgoing;
use super::parked::Parked;
use super::plain::Plain;
use super::state::Telling;
use super::stored::Line;
use crate::hub::{Attach, Attachment, Client, ClientId, Form, Hub, Progress, SessionName, SubscriptionKind};
use crate::selection::Selection;

/// The most arrivals that are looked at in one go.
const STEPS: u32 = 4_096;
/// The client that a subscription is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whose<'a> {
    pub(super) client: ClientId,
    /// The client as reports name it.
    pub(super) known: &'a Arc<Client>,
    /// Its session, if that is kept beyond the connection.
    pub(super) session: Option<&'a SessionName>,
}

/// A subscription that is attached.
#[derive(Debug)]
pub(super) struct Subscription {
    selection: Selection,
    pub(super) options: Options,
    /// Reads channels that are not on disk for it.
    attachment: Option<Attachment>,
    /// Reads those that are.
    durable: Option<Durable>,
    /// Reads the last values once more, for a client that subscribed a second time.
    values: Option<Attachment>,
    wants_values: bool,
    telling: Option<Telling>,
    /// Whether there may be more to read, whoever wakes it.
    has_more: bool,
}

impl Subscription {
    /// Attaches a subscription that the client asks for.
    pub(super) async fn attach(
        hub: &Arc<Hub>,
        whose: Whose<'_>,
        wanted: Wanted,
        form: Form,
        notify: &Arc<Notify>,
    ) -> Result<Self, Refusal> {
        let channels = durable_channels(hub, whose, &wanted);
        // What is on disk has no last values. They are read beside.
        let values = if channels.is_empty() || !wanted.wants_values {
            None
        } else {
            Some(last_values(hub, whose.client, &wanted.selection, form, notify, &channels)?)
        };
        let acknowledged = Arc::default();
        let mut attached =
            Self::attach_in(hub, whose, wanted, form, notify, (channels, acknowledged)).await?;
        attached.values = values;
        Ok(attached)
    }

    /// Attaches what was kept of a session.
    pub(super) async fn resume(
        hub: &Arc<Hub>,
        whose: Whose<'_>,
        parked: Parked,
        form: Form,
        notify: &Arc<Notify>,
    ) -> Result<Self, Refusal> {
        let (wanted, acknowledged) = parked.wanted();
        let channels = durable_channels(hub, whose, &wanted);
        Self::attach_in(hub, whose, wanted, form, notify, (channels, acknowledged)).await
    }

    async fn attach_in(
        hub: &Arc<Hub>,
        whose: Whose<'_>,
        wanted: Wanted,
        form: Form,
        notify: &Arc<Notify>,
        (channels, acknowledged): (Vec<ChannelId>, Arc<Acknowledged>),
    ) -> Result<Self, Refusal> {
        let Wanted { selection, options, start, recover, wants_values, is_semi_durable } = wanted;
        let has_others = hub.channels_of(&selection).iter().any(|(channel, _)| !channels.contains(channel));
        let mut attachment = None;
        if has_others || channels.is_empty() {
            let (selected, slow, start) = (selection.clone(), Slow::Wait, start.clone());
            let attach = Attach { selection: selected, recover, slow, start, state: None, form };
            let attached = hub.attach_beside(whose.client, attach, Arc::clone(notify), &channels)?;
            let kind =
                if is_semi_durable { SubscriptionKind::SemiDurable } else { SubscriptionKind::Nondurable };
            attachment.insert(attached).introduce(whose.known, kind);
        }
        let mut durable = None;
        if let Some(session) = whose.session.filter(|_| !channels.is_empty()) {
            let coverage = if let Start::Coverage(coverage) = start { coverage } else { Coverage::default() };
            let selected = (selection.clone(), coverage);
            durable = Some(Durable::attach(hub, session, selected, channels, acknowledged, notify).await?);
        }
        let telling = is_semi_durable.then(|| Telling::new(hub.name().cluster));
        let (values, has_more) = (None, true);
        Ok(Self { selection, options, attachment, durable, values, wants_values, telling, has_more })
    }

    /// The subscription as it is kept on disk. The client keeps a semi-durable one.
    pub(super) fn line(&self) -> Option<Line> {
        let (text, selection) = (self.filter().as_str().to_owned(), self.selection.clone());
        self.telling.is_none().then_some(Line { text, selection, options: self.options })
    }

    /// Whether it has a part that is on disk.
    pub(super) fn is_durable(&self) -> bool {
        self.durable.is_some()
    }

    /// Whether its part on disk was read as far as it was there when it was attached.
    pub(super) fn is_through(&self) -> bool {
        self.durable.as_ref().is_none_or(Durable::is_through)
    }

    /// Whether one that is asked for keeps the same on disk.
    pub(super) fn is_kept_as(&self, options: &Options) -> bool {
        (self.options.qos == Qos::AtMostOnce) == (options.qos == Qos::AtMostOnce)
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

    /// The coverage of what was read, acknowledged or not.
    pub(super) fn coverage(&self) -> Coverage {
        let mut coverage = self.attachment.as_ref().map(Attachment::coverage).unwrap_or_default();
        if let Some(durable) = &self.durable {
            // There are no more channels than a coverage has.
            coverage.merge(&durable.coverage()).ok();
        }
        coverage
    }

    pub(super) fn is_ready(&self) -> bool {
        let is_woken = self.attachment.as_ref().is_some_and(Attachment::is_ready);
        self.has_more
            || is_woken
            || self.values.is_some()
            || self.durable.as_ref().is_some_and(Durable::is_ready)
    }

    /// Whether the client has room for another message.
    pub(super) fn may_send(&self, outgoing: &Outgoing) -> bool {
        outgoing.has_room(&self.options)
    }

    /// Reads what there is, as far as the client has room.
    ///
    /// # Errors
    /// The disk cannot be read, or the client acknowledges in a way that cannot be kept.
    pub(super) async fn read(&mut self, hub: &Hub, outgoing: &mut Outgoing) -> Result<(), Refusal> {
        self.read_values(hub, outgoing);
        if outgoing.has_room(&self.options)
            && let Some(durable) = &mut self.durable
            && durable.is_ready()
        {
            // Most who are idle have none, and should not have room for it.
            Box::pin(durable.read(hub, &self.options, outgoing)).await?;
        }
        if self.may_send(outgoing) {
            self.read_buffer(hub, outgoing).await;
        }
        Ok(())
    }

    /// Reads what there is in channels that are not on disk.
    async fn read_buffer(&mut self, hub: &Hub, outgoing: &mut Outgoing) {
        let Some(attachment) = &self.attachment else {
            self.has_more = false;
            return;
        };
        let is_recovering = attachment.is_recovering();
        let turn = if is_recovering { Some(hub.turns().begin().await) } else { None };
        let began = Instant::now();
        let progress = self.read_on(hub, outgoing);
        if let Some(turn) = turn {
            hub.turns().end(turn, began.elapsed()).await;
        }
        self.has_more = progress == Progress::More;
        if progress == Progress::Idle
            && let Some((telling, attachment)) = self.telling.as_mut().zip(self.attachment.as_ref())
        {
            telling.tell_news(attachment, &self.selection, &self.options, &mut outgoing.out);
        }
    }

    fn read_on(&mut self, hub: &Hub, outgoing: &mut Outgoing) -> Progress {
        let wall_ms = hub.clock().now().wall_ms;
        let (options, wants_values) = (self.options, self.wants_values);
        let Some(attachment) = &mut self.attachment else { return Progress::Idle };
        let Some(telling) = &mut self.telling else {
            let mut sink = Plain { options, wants_values, outgoing, wall_ms, shared: 0 };
            return attachment.read(true, STEPS, &mut sink);
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
            let progress = attachment.read(true, STEPS, &mut sink);
            let Some(delivery) = delivered else { return progress };
            let coverage = telling.with_delivery(attachment);
            outgoing.deliver(&options, delivery, coverage, Due::Nothing, wall_ms);
            if !outgoing.has_room(&options) {
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
                outgoing.deliver(&options, delivery, None, Due::Nothing, wall_ms);
                outgoing.has_room(&options)
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
        if let Some(durable) = &mut self.durable {
            durable.tell_covers();
        }
        if let Some((telling, attachment)) = self.telling.as_mut().zip(self.attachment.as_ref()) {
            telling.tell_coverage(attachment, &self.selection, &self.options, &mut outgoing.out);
        }
    }

    /// Returns the subscription as it is kept while the client is away.
    pub(super) fn park(mut self) -> Parked {
        let acknowledged = self.durable.as_mut().map(Durable::park).unwrap_or_default();
        let (start, is_semi_durable) = (Start::Coverage(self.coverage()), self.telling.is_some());
        let (selection, options) = (self.selection, self.options);
        Parked { selection, options, start, acknowledged, is_semi_durable }
    }
}

/// The channels in which a subscription is kept on disk: durable ones, for a session that is kept and acknowledges messages.
fn durable_channels(hub: &Hub, whose: Whose<'_>, wanted: &Wanted) -> Vec<ChannelId> {
    let is_kept = whose.session.is_some() && wanted.options.qos != Qos::AtMostOnce;
    if !is_kept || wanted.is_semi_durable {
        return Vec::new();
    }
    let channels = hub.channels_of(&wanted.selection).into_iter();
    channels.filter_map(|(channel, is_durable)| is_durable.then_some(channel)).collect()
}

/// Reads the last values of these channels alone.
fn last_values(
    hub: &Arc<Hub>,
    client: ClientId,
    selection: &Selection,
    form: Form,
    notify: &Arc<Notify>,
    channels: &[ChannelId],
) -> Result<Attachment, Refusal> {
    let (recover, slow, start) = (Recover::First, Slow::Wait, Start::Live);
    let attach = Attach { selection: selection.clone(), recover, slow, start, state: None, form };
    let others = hub.channels_of(selection).into_iter().map(|(channel, _)| channel);
    let others: Vec<_> = others.filter(|channel| !channels.contains(channel)).collect();
    hub.attach_beside(client, attach, Arc::clone(notify), &others)
}
