//! The facts as others use them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::coverage::{Coverage, Range};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Origin};

use super::base::Base;
use super::error::MetaError;
use super::subscription::{DurableSubscription, SubscriptionName, Tombstone};
use super::tables;
use super::writer::Writer;

/// The facts that a broker remembers beside messages.
#[derive(Debug)]
pub struct Meta {
    pub(super) writer: Writer,
}

impl Meta {
    /// Opens a database, which is created if it is missing.
    pub(in crate::store) fn open(file: &Path, cursor_every: Duration) -> Result<Self, MetaError> {
        let (base, state) = Base::open(file)?;
        Ok(Self { writer: Writer::start(base, state, cursor_every)? })
    }

    /// Reads a database, and changes nothing.
    pub(in crate::store) fn check(file: &Path) -> Result<(), MetaError> {
        Base::check(file)
    }

    /// Returns the broker's own id. If there is none yet, it is `fresh`, which should be random or configured.
    ///
    /// # Errors
    /// The id cannot be written.
    pub fn broker(&self, fresh: BrokerId) -> Result<BrokerId, MetaError> {
        if let Some(known) = self.writer.state().broker {
            return Ok(known);
        }
        self.writer.write_now(
            |transaction| tables::put_broker(transaction, fresh),
            |state| state.broker = Some(fresh),
        )?;
        Ok(fresh)
    }

    /// Returns all durable subscriptions, by name.
    pub fn subscriptions(&self) -> Vec<Arc<DurableSubscription>> {
        self.writer.state().subscriptions().cloned().collect()
    }

    /// A durable subscription.
    pub fn subscription(&self, name: &SubscriptionName) -> Option<Arc<DurableSubscription>> {
        self.writer.state().subscription(name).cloned()
    }

    /// Keeps a subscription from now on, or its new generation. It is on disk when this returns. Another filter or selector than before
    /// begins with no coverage, since the former cannot speak for what it left out. Returns whether that was so.
    ///
    /// # Errors
    /// The subscription belongs to another owner, was attached or ended with a higher generation, or cannot be kept or written.
    pub fn subscribe(&self, subscription: &DurableSubscription) -> Result<bool, MetaError> {
        let _one = self.writer.changing();
        let is_changed = self.writer.state().check(subscription)?;
        self.writer.write_now(
            |transaction| tables::put_subscription(transaction, subscription, is_changed),
            |state| state.subscribe(subscription, is_changed),
        )?;
        Ok(is_changed)
    }

    /// Ends a subscription, and remembers until `ends_ms` (since 1970) that it was ended, so that no broker that was cut off brings it back.
    /// It is on disk when this returns. Returns whether there was one. If too many are remembered, the oldest memory of the owner with the most
    /// gives way.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn unsubscribe(&self, name: &SubscriptionName, ends_ms: u64) -> Result<bool, MetaError> {
        let _one = self.writer.changing();
        let Some(former) = self.subscription(name) else { return Ok(false) };
        let tombstone = Tombstone { generation: former.generation, ends_ms, born: former.born };
        self.writer.write_now(
            |transaction| tables::put_tombstone(transaction, name, tombstone),
            |state| state.unsubscribe(name, tombstone),
        )?;
        // A memory may have given way to it.
        self.writer.write_later();
        Ok(true)
    }

    /// Returns the record that a subscription was ended.
    pub fn tombstone(&self, name: &SubscriptionName) -> Option<Tombstone> {
        self.writer.state().tombstone(name)
    }

    /// Forgets ended subscriptions whose time has come. Returns how many.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn expire(&self, wall_ms: u64) -> Result<usize, MetaError> {
        let _one = self.writer.changing();
        let ended = self.writer.state().ended(wall_ms);
        if !ended.is_empty() {
            self.writer.write_now(
                |transaction| tables::remove_tombstones(transaction, &ended),
                |state| state.forget_tombstones(&ended),
            )?;
        }
        Ok(ended.len())
    }

    /// Returns the coverage of a durable subscription.
    pub fn coverage(&self, name: &SubscriptionName) -> Option<Coverage> {
        self.writer.state().coverage(name).cloned()
    }

    /// Covers a range for a subscription; written within the time `cursor_every`. Returns the gap that had to be closed for it, to be told
    /// as unknown.
    ///
    /// # Errors
    /// There is no such subscription, or its coverage is full.
    pub fn cover(
        &self,
        name: &SubscriptionName,
        channel: ChannelId,
        origin: Origin,
        range: Range,
    ) -> Result<Option<Range>, MetaError> {
        let closed = self.writer.state().cover(name, channel, origin, range)?;
        self.writer.write_later();
        Ok(closed)
    }

    /// As [`Meta::cover`], if the subscription still selects this, by the [digest](DurableSubscription::selects).
    ///
    /// # Errors
    /// There is no such subscription, another took its name, or its coverage is full.
    pub fn cover_as(
        &self,
        (name, selects): (&SubscriptionName, u64),
        channel: ChannelId,
        origin: Origin,
        range: Range,
    ) -> Result<Option<Range>, MetaError> {
        let mut state = self.writer.state();
        if !state.has_selection(name, selects) {
            return Err(MetaError::Unknown(name.clone()));
        }
        let closed = state.cover(name, channel, origin, range)?;
        drop(state);
        self.writer.write_later();
        Ok(closed)
    }

    /// Returns the number of messages of a range that some durable subscription of the channel does not cover: what
    /// [`Log::trim`](crate::store::Log::trim) asks.
    pub fn uncovered(&self, channel: ChannelId, origin: Origin, range: Range) -> u64 {
        self.writer.state().uncovered(channel, origin, range)
    }

    /// Takes note of the highest sequence of an origin; written later. A lower one than before changes nothing.
    ///
    /// # Errors
    /// Too many origins are remembered.
    pub fn see(&self, channel: ChannelId, origin: Origin, highest: u64) -> Result<(), MetaError> {
        self.writer.state().see(channel, origin, highest)?;
        self.writer.write_later();
        Ok(())
    }

    /// Returns the origins that were seen in a channel, each with its highest sequence.
    pub fn seen(&self, channel: ChannelId) -> Vec<(Origin, u64)> {
        self.writer.state().seen(channel)
    }

    /// Forgets an origin that has ended and of which no broker holds anything, in all coverage, too.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn forget(&self, channel: ChannelId, origin: Origin) -> Result<(), MetaError> {
        let _one = self.writer.changing();
        let names = self.writer.state().names();
        self.writer.write_now(
            |transaction| tables::remove_origin(transaction, channel, origin, &names),
            |state| state.forget(channel, origin),
        )
    }

    /// Writes what waits. Call it before a log is trimmed: what coverage and last values say then survives the messages.
    ///
    /// # Errors
    /// It cannot be written. It waits on, and is tried again.
    pub fn flush(&self) -> Result<(), MetaError> {
        self.writer.flush()
    }

    /// Why what waits could not be written the last time, if so.
    pub fn trouble(&self) -> Option<MetaError> {
        self.writer.trouble()
    }
}
