//! A client's durable subscription, on a stream of its own.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio::time::{MissedTickBehavior, interval};
use whimbrel::{MessageStream, Sender};
use whimbrel_pubsub::frame::{
    Attached, DurableName, Kind, Recover, Refusal, Slow, Subscribe, Subscribed, SubscriberFrame,
    SubscriptionFrame,
};
use whimbrel_pubsub::topic::TopicFilter;

use super::access::Permissions;
use super::packing::Packing;
use super::subscriber::{COVER_EVERY, Who, mistake, not_permitted, revoked, selected};
use crate::hub::{AttachDurable, DurableAttachment, Hub, Progress, Sink};

/// Why serving is over.
enum Over {
    /// The stream or the session has ended.
    Gone,
    /// The broker ends it.
    Ended(Refusal),
}

impl From<Refusal> for Over {
    fn from(refusal: Refusal) -> Self {
        Self::Ended(refusal)
    }
}

/// Serves a durable subscription until its stream or session ends.
pub(super) async fn run(
    hub: Arc<Hub>,
    mut stream: MessageStream,
    (who, mut changes): (Who, watch::Receiver<()>),
    subscribe: Subscribe,
    permissions: &Permissions,
    (packing, roomy): (Packing, &Semaphore),
) {
    let sender = stream.sender().build();
    let over = match attach(hub, &who, subscribe, permissions).await {
        Ok((attachment, filter, attached)) => {
            let frame = SubscriptionFrame::Attached(attached).encode();
            if sender.send(frame).await.is_err() {
                return;
            }
            tokio::select! {
                over = serve(attachment, &mut stream, &sender, packing, roomy) => over.err(),
                () = revoked(&who, &filter, &mut changes) => Some(Over::Ended(not_permitted(&filter))),
            }
        }
        Err(refusal) => Some(Over::Ended(refusal)),
    };
    if let Some(Over::Ended(refusal)) = over {
        drop(sender.send(SubscriptionFrame::Ended(refusal).encode()).await);
    }
}

/// Ends a durable subscription, and says so.
pub(super) async fn end(hub: Arc<Hub>, sender: &Sender, who: &Who, name: DurableName) {
    let ended = match owner(who) {
        Ok(owner) => hub.end_durable(&owner, &name).await,
        Err(refusal) => Err(refusal),
    };
    let frame = match ended {
        Ok(was_there) => SubscriptionFrame::Unsubscribed(was_there),
        Err(refusal) => SubscriptionFrame::Ended(refusal),
    };
    drop(sender.send(frame.encode()).await);
}

async fn attach(
    hub: Arc<Hub>,
    who: &Who,
    subscribe: Subscribe,
    permissions: &Permissions,
) -> Result<(DurableAttachment, TopicFilter, Attached), Refusal> {
    let Subscribe { filter, selector, kind, recover, slow } = subscribe;
    let Kind::Durable { name, generation, coverage } = kind else {
        return Err(mistake("the subscription is not durable"));
    };
    if recover != Recover::First || slow != Slow::Wait {
        return Err(mistake(
            "a durable subscription receives every message in order: leave other options out",
        ));
    }
    let selection = selected(permissions, &filter, selector.as_deref())?;
    let selector = selection.selector().map(ToString::to_string);
    let filter = selection.filter().clone();
    let of_record = selection.clone();
    let attach = AttachDurable { owner: owner(who)?, name, generation, coverage, selection };
    let mut attachment = hub.attach_durable(attach).await?;
    attachment.introduce(&who.known, &of_record);
    let attached = Attached {
        subscribed: Subscribed { selector, channels: attachment.channels() },
        generation: attachment.generation(),
        unconfirmed: attachment.unconfirmed().to_vec(),
    };
    Ok((attachment, filter, attached))
}

fn owner(who: &Who) -> Result<Vec<u8>, Refusal> {
    let key = who.key.ok_or_else(|| mistake("a durable subscription belongs to a key, and you have none"))?;
    Ok(key.as_bytes().to_vec())
}

/// Tells the subscriber what there is, and hears what it acknowledges, until one of both ends it.
async fn serve(
    mut attachment: DurableAttachment,
    stream: &mut MessageStream,
    sender: &Sender,
    mut packing: Packing,
    roomy: &Semaphore,
) -> Result<(), Over> {
    let mut covers = interval(COVER_EVERY);
    covers.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if attachment.is_superseded() {
            return Err(attachment.end().into());
        }
        let room = roomy.try_acquire().ok();
        packing.allow(room.is_some());
        let progress = attachment.read(|channel, told| packing.tell(channel, told)).await?;
        let (frames, mut is_woken) = (packing.take(), false);
        if !frames.is_empty() {
            let sending = sender.send_many(frames);
            tokio::pin!(sending);
            // Acknowledgements are read meanwhile: two that wait for each other's room would wait for good.
            loop {
                tokio::select! {
                    sent = &mut sending => break sent.map(drop).map_err(|_| Over::Gone)?,
                    // A client that reads nothing keeps no more than its latest attachment.
                    () = attachment.woken() => {
                        if attachment.is_superseded() {
                            return Err(attachment.end().into());
                        }
                        is_woken = true;
                    }
                    received = stream.recv() => take(&mut attachment, received.map_err(|_| Over::Gone)?.payload.as_ref())?,
                }
            }
        }
        drop(room);
        if progress != Progress::Idle || is_woken {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            () = attachment.woken() => {}
            _ = covers.tick() => attachment.tell_covers(),
            received = stream.recv() => take(&mut attachment, received.map_err(|_| Over::Gone)?.payload.as_ref())?,
        }
    }
}

/// Takes an acknowledgement.
fn take(attachment: &mut DurableAttachment, payload: &[u8]) -> Result<(), Over> {
    match SubscriberFrame::parse(payload) {
        Ok(SubscriberFrame::Acknowledge(coverage)) => Ok(attachment.acknowledge(&coverage)?),
        _ => {
            Err(mistake("only acknowledgements are expected on the stream of a durable subscription").into())
        }
    }
}
