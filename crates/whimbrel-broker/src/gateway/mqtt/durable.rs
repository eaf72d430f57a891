//! A subscription's part in channels that are on disk.

use std::sync::Arc;

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::{Coverage, Told};
use whimbrel_pubsub::frame::Refusal;
use whimbrel_pubsub::message::ChannelId;

use super::acknowledged::{Acknowledged, Mark};
use super::in_flight::Due;
use super::options::Options;
use super::outgoing::Outgoing;
use crate::hub::{DurableAttachment, Hub, Progress, SessionName};
use crate::selection::Selection;
use crate::store::SubscriptionName;

/// The most that is acknowledged to the store at once: so much fits into a coverage, however it lies.
const MOST_AT_ONCE: usize = 128;

/// A subscription's part in channels that are on disk. Unlike other parts it survives a restart of the broker.
#[derive(Debug)]
pub(super) struct Durable {
    attachment: DurableAttachment,
    name: Arc<SubscriptionName>,
    acknowledged: Arc<Acknowledged>,
    /// Whether there may be more to read, whoever wakes it.
    has_more: bool,
}

impl Durable {
    /// Attaches a session's subscription in these channels. It is on disk when this returns. `coverage` is what the client has, or was sent and
    /// may still acknowledge; `acknowledged` what it acknowledged of that.
    pub(super) async fn attach(
        hub: &Arc<Hub>,
        session: &SessionName,
        (selection, coverage): (Selection, Coverage),
        channels: Vec<ChannelId>,
        acknowledged: Arc<Acknowledged>,
        notify: &Arc<Notify>,
    ) -> Result<Self, Refusal> {
        let (of_errand, name, notify) = (Arc::clone(hub), session.clone(), Arc::clone(notify));
        let attached = hub.errand_of_session(session, move || {
            of_errand.attach_of_session(&name, (selection, coverage), &channels, notify)
        });
        let attachment = attached.await??;
        let name = Arc::new(attachment.name().clone());
        Ok(Self { attachment, name, acknowledged, has_more: true })
    }

    pub(super) fn is_ready(&self) -> bool {
        self.has_more || self.attachment.is_ready() || !self.acknowledged.is_empty()
    }

    /// Whether all was read that was on disk when it was attached.
    pub(super) fn is_through(&self) -> bool {
        self.attachment.is_through()
    }

    /// Sends what there is, as far as the client has room.
    pub(super) async fn read(
        &mut self,
        hub: &Hub,
        options: &Options,
        outgoing: &mut Outgoing,
    ) -> Result<(), Refusal> {
        let wall_ms = hub.clock().now().wall_ms;
        self.acknowledge()?;
        let (acknowledged, name) = (&self.acknowledged, &self.name);
        let progress = self.attachment.read(|channel, told| match told {
            Told::Delivery(delivery) => {
                let mark = Mark::new(acknowledged, name, channel, delivery.cover);
                outgoing.deliver(options, delivery, None, Due::Store(mark), wall_ms);
                outgoing.has_room(options)
            }
            told => {
                if let Some(cover) = told.cover() {
                    acknowledged.note(channel, cover);
                }
                true
            }
        });
        self.has_more = progress.await? == Progress::More;
        self.acknowledge()
    }

    /// Tells the store what the client has. It is written within a time.
    fn acknowledge(&mut self) -> Result<(), Refusal> {
        let noted = self.acknowledged.take();
        self.has_more |= !noted.is_empty();
        for noted in noted.chunks(MOST_AT_ONCE) {
            let mut coverage = Coverage::default();
            for (channel, cover) in noted {
                if let Ok(entry) = coverage.entry(*channel) {
                    entry.insert(cover.origin, cover.range).ok();
                }
            }
            self.attachment.acknowledge(&coverage)?;
        }
        Ok(())
    }

    /// Has what does not match acknowledged at the next reading.
    pub(super) fn tell_covers(&mut self) {
        self.attachment.tell_covers();
        self.has_more = true;
    }

    /// The coverage of all that was read, acknowledged or not.
    pub(super) fn coverage(&self) -> Coverage {
        self.attachment.coverage()
    }

    /// The client leaves. Returns where its further acknowledgements are noted.
    pub(super) fn park(&mut self) -> Arc<Acknowledged> {
        // What has too many gaps comes again after a restart.
        self.acknowledge().ok();
        Arc::clone(&self.acknowledged)
    }
}
