//! A client's seat in a group, on a stream of its own: `$share/GROUP/FILTER`.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use whimbrel::{Delivery, MessageStream, Outcome, Sender};
use whimbrel_pubsub::coverage::Told;
use whimbrel_pubsub::frame::{Kind, Recover, Refusal, Slow, Subscribe, Subscribed, SubscriptionFrame};
use whimbrel_pubsub::topic::{self, TopicFilter};

use super::access::Permissions;
use super::packing::Packing;
use super::subscriber::{Who, mistake, not_permitted, revoked, selected};
use crate::hub::{Hub, Receipt, Seat, Sink};

/// How long the end waits for news of what was sent. What is not known to have come by then goes to others.
const LAST_NEWS: Duration = Duration::from_secs(1);

/// Whether a subscription is one of a group.
pub(super) fn is_shared(subscribe: &Subscribe) -> bool {
    subscribe.filter.starts_with("$share/")
}

/// Serves a member until its stream or session ends.
pub(super) async fn run(
    hub: Arc<Hub>,
    mut stream: MessageStream,
    (who, mut changes): (Who, watch::Receiver<()>),
    subscribe: Subscribe,
    permissions: &Permissions,
    (packing, roomy): (Packing, &Semaphore),
) {
    let sender = stream.sender().build();
    let notify = Arc::<Notify>::default();
    let ended = match join(&hub, &who, subscribe, permissions, &notify) {
        Ok((seat, filter, subscribed)) => {
            let frame = SubscriptionFrame::Subscribed(subscribed).encode();
            if sender.send(frame).await.is_err() {
                return;
            }
            let mut member = Member { seat, notify, sender: sender.clone(), packing, sent: JoinSet::new() };
            let ended = tokio::select! {
                () = member.serve(&mut stream, roomy) => None,
                () = revoked(&who, &filter, &mut changes) => Some(not_permitted(&filter)),
            };
            member.leave().await;
            ended
        }
        Err(refusal) => Some(refusal),
    };
    if let Some(refusal) = ended {
        drop(sender.send(SubscriptionFrame::Ended(refusal).encode()).await);
    }
}

/// Takes a seat.
fn join(
    hub: &Arc<Hub>,
    who: &Who,
    subscribe: Subscribe,
    permissions: &Permissions,
    notify: &Arc<Notify>,
) -> Result<(Seat, TopicFilter, Subscribed), Refusal> {
    let Subscribe { filter, selector, kind, recover, slow } = subscribe;
    let topic::Subscribed { group, filter } = topic::Subscribed::parse(&filter).map_err(mistake)?;
    let group = group.ok_or_else(|| mistake("the subscription names no group"))?;
    if kind != Kind::Nondurable {
        return Err(mistake(
            "a group has one position in the messages, which its members share: they have no state of their own and are not durable",
        ));
    }
    if recover != Recover::First || slow != Slow::Wait {
        return Err(mistake("a group reads every message in order: leave other options out"));
    }
    let selection = selected(permissions, filter.as_str(), selector.as_deref())?;
    let normal = selection.selector().map(ToString::to_string);
    let channels = hub.channels_of(&selection).into_iter().map(|(channel, _)| channel).collect();
    let seat = hub.join((who.client, who.client), group.as_str(), selection, Arc::clone(notify))?;
    Ok((seat, filter, Subscribed { selector: normal, channels }))
}

/// A member that is here.
struct Member {
    seat: Seat,
    /// Wakes it when there are messages.
    notify: Arc<Notify>,
    sender: Sender,
    packing: Packing,
    /// The waits for news of what was sent.
    sent: JoinSet<()>,
}

impl Member {
    /// Sends what is there for this member until the stream ends.
    async fn serve(&mut self, stream: &mut MessageStream, roomy: &Semaphore) {
        loop {
            let room = roomy.try_acquire().ok();
            self.packing.allow(room.is_some());
            let mut receipts = Vec::new();
            while let Some((channel, delivery, receipt)) = self.seat.take() {
                receipts.push(receipt);
                if !self.packing.tell(channel, Told::Delivery(delivery)) {
                    break;
                }
            }
            if receipts.is_empty() {
                drop(room);
                tokio::select! {
                    () = self.notify.notified() => {}
                    // It is done with what it was sent, and has room for more.
                    Some(_) = self.sent.join_next() => {}
                    // Nothing is expected on the stream but its end.
                    _ = stream.recv() => return,
                }
                continue;
            }
            let mut deliveries = Vec::new();
            for frame in self.packing.take() {
                match self.sender.send_tracked(frame).await {
                    Ok(delivery) => deliveries.push(delivery),
                    Err(_) => return,
                }
            }
            self.sent.spawn(settle(deliveries, receipts));
        }
    }

    /// Leaves the group. Others get what this member is not known to have.
    async fn leave(mut self) {
        drop(self.seat);
        let known = async { while self.sent.join_next().await.is_some() {} };
        timeout(LAST_NEWS, known).await.ok();
    }
}

/// Waits until these frames have come to the member, and is done with their messages then. Otherwise others get them.
async fn settle(deliveries: Vec<Delivery>, receipts: Vec<Receipt>) {
    for delivery in deliveries {
        if delivery.outcome().await != Outcome::Delivered {
            return;
        }
    }
    receipts.into_iter().for_each(Receipt::settle);
}
