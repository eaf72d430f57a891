//! A client's subscription, on a stream of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use whimbrel::{MessageStream, PublicKey, Sender};
use whimbrel_pubsub::coverage::Told;
use whimbrel_pubsub::frame::{
    Kind, Refusal, RefusalCode, Start, Subscribe, Subscribed, SubscriberFrame, SubscriptionFrame, Telling,
};
use whimbrel_pubsub::message::ChannelId;
use whimbrel_pubsub::topic::TopicFilter;

use super::access::{Access, Permissions};
use super::{durable, member};
use crate::hub::{Attach, Attachment, Client, ClientId, Form, Hub, Progress, Sink, SubscriptionKind};
use crate::quota::Quota;
use crate::selection::Selection;
use crate::selector::Selector;

/// How long a client may take to say what it wants on a stream.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time until a subscription is told its coverage, even if no message comes.
pub(super) const COVER_EVERY: Duration = Duration::from_secs(5);
/// The most arrivals that are looked at in one go.
const STEPS: u32 = 4_096;
/// The most bytes that are read before they are sent.
const BYTES: usize = 64 << 10;
/// The subscriptions of a session that may have so much read and not sent. Others read a packet at a time, so that many that the client
/// does not read hold little.
pub(super) const ROOMY: usize = 32;

/// Whose subscription it is.
pub(super) struct Who {
    /// The number by which its limits are kept.
    pub(super) client: ClientId,
    pub(super) key: Option<PublicKey>,
    /// The client as reports name it.
    pub(super) known: Arc<Client>,
    pub(super) access: Arc<Access>,
}

impl Who {
    /// The permissions of the client, as they are now.
    fn permissions(&self) -> Arc<Permissions> {
        self.access.of(self.key.as_ref())
    }
}

/// Serves a subscription until its stream or session ends. `first` is its first message, if that came already.
pub(super) async fn run(
    hub: Arc<Hub>,
    mut stream: MessageStream,
    first: Option<Bytes>,
    who: Who,
    most: usize,
    roomy: Arc<Semaphore>,
) {
    let sender = stream.sender().build();
    let first = match first {
        Some(first) => first,
        None => match timeout(PATIENCE, stream.recv()).await {
            Ok(Ok(message)) => message.payload,
            _ => return,
        },
    };
    // What changes from here on is noticed.
    let mut changes = who.access.changes();
    let permissions = who.permissions();
    let packing = Packing::new(most, permissions.quota.queued(BYTES));
    let attached = match SubscriberFrame::parse(&first) {
        Ok(SubscriberFrame::Subscribe(subscribe))
            if matches!(subscribe.kind, Kind::Durable { .. }) && !member::is_shared(&subscribe) =>
        {
            drop(first);
            // Boxed: few are durable, and each of the others would have room for one.
            let serving =
                durable::run(hub, stream, (who, changes), subscribe, &permissions, (packing, &roomy));
            return Box::pin(serving).await;
        }
        Ok(SubscriberFrame::Subscribe(subscribe)) if member::is_shared(&subscribe) => {
            drop(first);
            let serving =
                member::run(hub, stream, (who, changes), subscribe, &permissions, (packing, &roomy));
            return Box::pin(serving).await;
        }
        Ok(SubscriberFrame::Subscribe(subscribe)) => attach(&hub, &who, &permissions, most, subscribe),
        Ok(SubscriberFrame::End(name)) => return Box::pin(durable::end(hub, &sender, &who, name)).await,
        _ => Err(mistake("the first message on the stream subscribes to nothing")),
    };
    drop(first);
    let ended = match attached {
        Ok((attachment, filter, subscribed)) => {
            let frame = SubscriptionFrame::Subscribed(subscribed).encode();
            if sender.send(frame).await.is_err() {
                return;
            }
            tokio::select! {
                ended = serve(&hub, attachment, &mut stream, &sender, packing, &roomy) => ended,
                () = revoked(&who, &filter, &mut changes) => Some(not_permitted(&filter)),
            }
        }
        Err(refusal) => Some(refusal),
    };
    if let Some(refusal) = ended {
        drop(sender.send(SubscriptionFrame::Ended(refusal).encode()).await);
        // What was sent arrives, though the stream is dropped.
    }
}

/// Waits until the client may not subscribe to `filter` any more.
pub(super) async fn revoked(who: &Who, filter: &TopicFilter, changes: &mut watch::Receiver<()>) {
    while changes.changed().await.is_ok() {
        if !who.permissions().may_subscribe(filter) {
            return;
        }
    }
    std::future::pending().await
}

pub(super) fn not_permitted(filter: &TopicFilter) -> Refusal {
    Refusal::new(RefusalCode::NotPermitted, format_args!("you may not subscribe to `{filter}`"))
}

/// Refuses a subscription beyond the client's quota.
pub(super) async fn refuse(mut stream: MessageStream, quota: Quota) {
    let most = quota.subscriptions(usize::MAX);
    let why = format!("your quota is {most} subscriptions per session");
    let refusal = SubscriptionFrame::Ended(Refusal::new(RefusalCode::Limit, why)).encode();
    drop(stream.sender().build().send(refusal).await);
    // What was sent arrives, though the stream is dropped.
    drop(timeout(PATIENCE, stream.recv()).await);
}

/// Attaches what the first message asks for.
fn attach(
    hub: &Arc<Hub>,
    who: &Who,
    permissions: &Permissions,
    most: usize,
    subscribe: Subscribe,
) -> Result<(Attachment, TopicFilter, Subscribed), Refusal> {
    let Subscribe { filter, selector, kind, recover, slow } = subscribe;
    let selection = selected(permissions, &filter, selector.as_deref())?;
    let (state, start) = match kind {
        Kind::Nondurable => (None, Start::Live),
        Kind::SemiDurable { id, generation, cluster, start } => {
            let own = hub.name().cluster;
            if let Some(other) = cluster.filter(|cluster| *cluster != own) {
                return Err(Refusal::new(
                    RefusalCode::OtherCluster,
                    format_args!(
                        "the state belongs to cluster {other}, but this broker belongs to cluster {own}"
                    ),
                ));
            }
            (Some((id, generation)), start)
        }
        Kind::Durable { .. } => return Err(mistake("a durable subscription is attached otherwise")),
    };
    let normal = selection.selector().map(ToString::to_string);
    let filter = selection.filter().clone();
    let kind = if state.is_some() { SubscriptionKind::SemiDurable } else { SubscriptionKind::Nondurable };
    // Frames are alike if packets are as long.
    let form = Form(most as u64);
    let mut attachment = hub.attach(who.client, Attach { selection, recover, slow, start, state, form })?;
    attachment.introduce(&who.known, kind);
    let subscribed = Subscribed { selector: normal, channels: attachment.channels() };
    Ok((attachment, filter, subscribed))
}

/// Reads what is selected, and looks whether the client may have it.
pub(super) fn selected(
    permissions: &Permissions,
    filter: &str,
    selector: Option<&str>,
) -> Result<Selection, Refusal> {
    let filter: TopicFilter = filter.parse().map_err(mistake)?;
    if !permissions.may_subscribe(&filter) {
        return Err(not_permitted(&filter));
    }
    let selector = selector.map(|text| Selector::parse(text).map(Arc::new)).transpose();
    Ok(Selection::new(filter, selector.map_err(mistake)?))
}

pub(super) fn mistake(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(RefusalCode::Mistake, why)
}

/// Tells the subscriber what there is, until the stream ends. Returns why the broker ends it.
async fn serve(
    hub: &Hub,
    mut attachment: Attachment,
    stream: &mut MessageStream,
    sender: &Sender,
    mut packing: Packing,
    roomy: &Semaphore,
) -> Option<Refusal> {
    let mut covers = interval(COVER_EVERY);
    covers.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if attachment.is_superseded() {
            return Some(Refusal::new(RefusalCode::Superseded, "the state was attached elsewhere"));
        }
        let turn = if attachment.is_recovering() { Some(hub.turns().begin().await) } else { None };
        let room = roomy.try_acquire().ok();
        packing.allow(room.is_some());
        let began = Instant::now();
        let progress = attachment.read(true, STEPS, &mut packing);
        if let Some(turn) = turn {
            hub.turns().end(turn, began.elapsed()).await;
        }
        sender.send_many(packing.take()).await.ok()?;
        drop(room);
        match progress {
            Progress::TooSlow => {
                return Some(Refusal::new(RefusalCode::TooSlow, "the subscriber was too slow"));
            }
            Progress::More => tokio::task::yield_now().await,
            Progress::Idle => {
                let is_due = tokio::select! {
                    () = attachment.woken() => false,
                    _ = covers.tick() => true,
                    // Nothing is expected on the stream but its end.
                    _ = stream.recv() => return None,
                };
                if is_due {
                    attachment.tell_covers();
                }
            }
        }
    }
}

/// Packs what is told into messages that fit into one packet each.
#[derive(Default)]
pub(super) struct Packing {
    most: usize,
    /// The bytes that may be packed if there is room.
    roomy: usize,
    /// The bytes that may be packed now.
    room: usize,
    open: Option<(ChannelId, Telling)>,
    full: Vec<Bytes>,
    bytes: usize,
    /// The length of what was added last.
    last: usize,
    /// Where what is shared begins among the full messages.
    shared: usize,
}

impl Packing {
    fn new(most: usize, roomy: usize) -> Self {
        Self { most, roomy, room: most, ..Self::default() }
    }

    /// Sets whether there is room for more than a packet.
    pub(super) fn allow(&mut self, is_roomy: bool) {
        self.room = if is_roomy { self.roomy } else { self.most };
    }

    fn close(&mut self) {
        self.full.extend(self.open.take().map(|(_, telling)| telling.finish()));
    }

    pub(super) fn take(&mut self) -> Vec<Bytes> {
        self.close();
        self.bytes = 0;
        std::mem::take(&mut self.full)
    }
}

impl Sink for Packing {
    fn tell(&mut self, channel: ChannelId, told: Told) -> bool {
        self.last = match &told {
            Told::Delivery(delivery) => delivery.message.encoded().len() + 16,
            _ => 48,
        };
        if self
            .open
            .as_ref()
            .is_some_and(|(open, telling)| *open != channel || telling.len() + self.last > self.most)
        {
            self.close();
        }
        let (_, telling) = self.open.get_or_insert_with(|| (channel, Telling::new(channel)));
        telling.push(&told);
        self.bytes += self.last;
        self.bytes < self.room
    }

    fn shares(&self) -> bool {
        true
    }

    fn begin(&mut self) {
        self.close();
        self.shared = self.full.len();
    }

    /// Another as long as the last would not fit into the packet.
    fn is_whole(&self) -> bool {
        let is_full = |(_, telling): &(ChannelId, Telling)| telling.len() + self.last > self.most;
        self.full.len() > self.shared || self.open.as_ref().is_some_and(is_full)
    }

    fn end(&mut self) -> Option<Vec<Bytes>> {
        self.close();
        self.full.get(self.shared..).map(<[Bytes]>::to_vec)
    }

    fn repeat(&mut self, bytes: &[Bytes]) -> bool {
        self.close();
        self.bytes += bytes.iter().map(Bytes::len).sum::<usize>();
        self.full.extend_from_slice(bytes);
        self.bytes < self.room
    }
}
