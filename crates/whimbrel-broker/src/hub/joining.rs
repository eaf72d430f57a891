//! A client takes a seat in a group.

use std::sync::{Arc, PoisonError};

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::Told;
use whimbrel_pubsub::frame::{Recover, Refusal, RefusalCode, Slow, Start};
use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::alike::Form;
use super::attached::ClientId;
use super::attachment::{Attach, Attachment, Progress};
use super::broker_name::broker_text;
use super::core::Hub;
use super::group::{Group, MOST_UNSETTLED, Seat};
use super::groups::{Entry, Key};
use super::seats::UserId;
use crate::selection::Selection;

/// The most arrivals that are looked at in one go.
const STEPS: u32 = 4_096;

impl Hub {
    /// Takes a seat of `client`, which is one of `user`, in the group of this name. Whoever waits for `notify` is woken when there are messages.
    /// The group begins with what is published after its first member came.
    ///
    /// # Errors
    /// Another broker serves the group, its members have another selector, no channel has topics of its filter, or a limit is reached.
    pub fn join(
        self: &Arc<Self>,
        (client, user): (ClientId, UserId),
        group: &str,
        selection: Selection,
        notify: Arc<Notify>,
    ) -> Result<Seat, Refusal> {
        let home = self.home_of(group);
        if home != self.name.broker {
            let why = format_args!(
                "another broker of the cluster serves the group `{group}`, {}: subscribe there",
                broker_text(home)
            );
            return Err(Refusal::new(RefusalCode::Mistake, why));
        }
        let key = (group.to_owned(), selection.filter().to_string());
        let selector = selection.selector().map(ToString::to_string);
        let mut counted = self.groups.seats.take(user)?;
        loop {
            let known = {
                let groups = self.groups.entries.lock().unwrap_or_else(PoisonError::into_inner);
                groups.get(&key).map(|entry| (Arc::clone(&entry.group), entry.selector == selector))
            };
            match known {
                Some((_, false)) => {
                    let why = format_args!("the group `{group}` has another selector for this filter");
                    return Err(Refusal::new(RefusalCode::Mistake, why));
                }
                Some((known, true)) => match known.join(Arc::clone(&notify), counted) {
                    Ok(seat) => return Ok(seat),
                    Err(still) => {
                        counted = still;
                        self.groups.remove(&key, &known);
                    }
                },
                None => self.found(client, &key, &selection, selector.clone())?,
            }
        }
    }

    /// Makes a group, unless somebody else just did. It counts as a subscription of the client that made it.
    fn found(
        self: &Arc<Self>,
        client: ClientId,
        key: &Key,
        selection: &Selection,
        selector: Option<String>,
    ) -> Result<(), Refusal> {
        let (recover, slow, start) = (Recover::First, Slow::Wait, Start::Live);
        let attach =
            Attach { selection: selection.clone(), recover, slow, start, state: None, form: Form(0) };
        let attachment = self.attach(client, attach)?;
        let group = Arc::<Group>::default();
        let mut groups = self.groups.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if !groups.contains_key(key) {
            groups.insert(key.clone(), Entry { group: Arc::clone(&group), selector });
            tokio::spawn(run(Arc::clone(self), key.clone(), group, attachment));
        }
        Ok(())
    }

    /// The broker of the cluster that serves a group: all brokers find the same one.
    fn home_of(&self, group: &str) -> BrokerId {
        let peers = self.rooms.iter().flat_map(|room| room.peers());
        let weight = |broker: &BrokerId| {
            let text = [&broker.0.to_le_bytes()[..], group.as_bytes()].concat();
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &text);
            digest.as_ref().to_vec()
        };
        peers.chain([self.name.broker]).max_by_key(weight).unwrap_or(self.name.broker)
    }
}

/// Reads for a group until it has no members.
async fn run(hub: Arc<Hub>, key: Key, group: Arc<Group>, mut attachment: Attachment) {
    // The first member is just coming.
    group.notify.notified().await;
    while !group.close_if_empty() {
        group.hand_out([]);
        let room = group.room().min(MOST_UNSETTLED);
        let mut batch = Vec::new();
        let progress = if room == 0 {
            Progress::Idle
        } else {
            let mut sink = |channel: ChannelId, told: Told| {
                // Last values are not for groups.
                if let Told::Delivery(delivery) = told
                    && !delivery.retained
                {
                    batch.push((channel, delivery));
                }
                batch.len() < room
            };
            attachment.read(true, STEPS, &mut sink)
        };
        group.hand_out(batch);
        if progress == Progress::More {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            () = attachment.woken() => {}
            () = group.notify.notified() => {}
        }
    }
    hub.groups.remove(&key, &group);
}
