//! A client's subscription, on a stream of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use whimbrel::{MessageStream, PublicKey, Sender};
use whimbrel_pubsub::frame::{
    Kind, Refusal, RefusalCode, Start, Subscribe, Subscribed, SubscriberFrame, SubscriptionFrame,
};
use whimbrel_pubsub::topic::TopicFilter;

use super::access::{Access, Permissions};
use super::packing::{FORM, Packing};
use super::{durable, member};
use crate::hub::{Attach, Attachment, Client, ClientId, Hub, Progress, SubscriptionKind};
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
pub(super) fn run(
    hub: Arc<Hub>,
    stream: MessageStream,
    first: Option<Bytes>,
    who: Who,
    roomy: Arc<Semaphore>,
) -> impl Future<Output = ()> {
    // In a box, as all that a subscription does not need any more once it is attached. There are many.
    let beginning = Box::pin(begin(hub, stream, first, who, roomy));
    async move {
        if let Some(serving) = beginning.await {
            serving.run().await;
        }
    }
}

/// Serves a subscription until it is attached, or to its end if that is done otherwise.
async fn begin(
    hub: Arc<Hub>,
    mut stream: MessageStream,
    first: Option<Bytes>,
    who: Who,
    roomy: Arc<Semaphore>,
) -> Option<Box<Serving>> {
    let sender = stream.sender().build();
    let first = match first {
        Some(first) => first,
        None => timeout(PATIENCE, stream.recv()).await.ok()?.ok()?.payload,
    };
    // What changes from here on is noticed.
    let changes = who.access.changes();
    let permissions = who.permissions();
    let packing = Packing::new(permissions.quota.queued(BYTES));
    let attached = match SubscriberFrame::parse(&first) {
        Ok(SubscriberFrame::Subscribe(subscribe))
            if matches!(subscribe.kind, Kind::Durable { .. }) && !member::is_shared(&subscribe) =>
        {
            drop(first);
            durable::run(hub, stream, (who, changes), subscribe, &permissions, (packing, &roomy)).await;
            return None;
        }
        Ok(SubscriberFrame::Subscribe(subscribe)) if member::is_shared(&subscribe) => {
            drop(first);
            member::run(hub, stream, (who, changes), subscribe, &permissions, (packing, &roomy)).await;
            return None;
        }
        Ok(SubscriberFrame::Subscribe(subscribe)) => attach(&hub, &who, &permissions, subscribe),
        Ok(SubscriberFrame::End(name)) => {
            durable::end(hub, &sender, &who, name).await;
            return None;
        }
        _ => Err(mistake("the first message on the stream subscribes to nothing")),
    };
    drop(first);
    match attached {
        Ok((attachment, filter, subscribed)) => {
            sender.send(SubscriptionFrame::Subscribed(subscribed).encode()).await.ok()?;
            Some(Box::new(Serving { hub, attachment, stream, sender, packing, roomy, who, filter, changes }))
        }
        Err(refusal) => {
            drop(sender.send(SubscriptionFrame::Ended(refusal).encode()).await);
            // What was sent arrives, though the stream is dropped.
            None
        }
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
    let mut attachment =
        hub.attach(who.client, Attach { selection, recover, slow, start, state, form: FORM })?;
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

/// A subscription that is attached.
struct Serving {
    hub: Arc<Hub>,
    attachment: Attachment,
    stream: MessageStream,
    sender: Sender,
    packing: Packing,
    roomy: Arc<Semaphore>,
    who: Who,
    filter: TopicFilter,
    changes: watch::Receiver<()>,
}

impl Serving {
    async fn run(mut self: Box<Self>) {
        let Self { hub, attachment, stream, sender, packing, roomy, who, filter, changes } = &mut *self;
        let ended = tokio::select! {
            ended = serve(hub, attachment, stream, sender, packing, roomy) => ended,
            () = revoked(who, filter, changes) => Some(not_permitted(filter)),
        };
        if let Some(refusal) = ended {
            self.end(refusal).await;
        }
    }

    async fn end(self: Box<Self>, refusal: Refusal) {
        let Self { sender, attachment, .. } = *self;
        // Whoever hears of the end may subscribe again.
        drop(attachment);
        drop(sender.send(SubscriptionFrame::Ended(refusal).encode()).await);
        // What was sent arrives, though the stream is dropped.
    }
}

/// Tells the subscriber what there is, until the stream ends. Returns why the broker ends it.
async fn serve(
    hub: &Hub,
    attachment: &mut Attachment,
    stream: &mut MessageStream,
    sender: &Sender,
    packing: &mut Packing,
    roomy: &Semaphore,
) -> Option<Refusal> {
    let mut covers = interval(COVER_EVERY);
    covers.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if attachment.is_superseded() {
            return Some(Refusal::new(RefusalCode::Superseded, "the state was attached elsewhere"));
        }
        let progress = if attachment.is_recovering() {
            // In a box, since most have nothing to recover most of the time.
            Box::pin(recover(hub, attachment, sender, packing, roomy)).await?
        } else {
            let room = roomy.try_acquire().ok();
            packing.allow(room.is_some());
            let progress = attachment.read(true, STEPS, packing);
            sender.send_many(packing.take()).await.ok()?;
            drop(room);
            progress
        };
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

/// Reads and sends when it is the subscription's turn to recover.
async fn recover(
    hub: &Hub,
    attachment: &mut Attachment,
    sender: &Sender,
    packing: &mut Packing,
    roomy: &Semaphore,
) -> Option<Progress> {
    let turn = hub.turns().begin().await;
    let room = roomy.try_acquire().ok();
    packing.allow(room.is_some());
    let began = Instant::now();
    let progress = attachment.read(true, STEPS, packing);
    hub.turns().end(turn, began.elapsed()).await;
    sender.send_many(packing.take()).await.ok()?;
    drop(room);
    Some(progress)
}
