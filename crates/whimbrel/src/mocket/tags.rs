//! Operations on all messages with a tag.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::{Outgoing, TagSettings};
use whimbrel_proto::{MessageId, StreamId, Tag};

use super::delivery::Delivery;
use super::handle::Mocket;
use super::sending::{PLAIN, translate, with};
use crate::error::SendError;
use crate::locked::Locked;

impl Mocket {
    /// Cancels all messages with this tag that are queued or in flight. Returns how many.
    pub fn cancel(&self, tag: Tag) -> usize {
        self.cancel_on(StreamId(0), tag)
    }

    pub(crate) fn cancel_on(&self, stream: StreamId, tag: Tag) -> usize {
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        let cancelled = state.connection.session().cancel(now, stream, tag);
        self.shared.wake(state);
        cancelled
    }

    /// Replaces all queued and in-flight messages with this tag by one reliable, sequenced message. It takes the place of the
    /// first one replaced (Mockets 3.3).
    ///
    /// ```no_run
    /// # fn example(mocket: whimbrel::Mocket) -> Result<(), whimbrel::SendError> {
    /// # use whimbrel::Tag;
    /// // Whatever the link is like, the newest position gets through, and no older one waits before it.
    /// mocket.replace(Tag(1), "47.37 N 8.54 E")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same as for [`Mocket::try_send`]; nothing was cancelled then. Even in a full queue there is room for a
    /// message no longer than those it replaces.
    pub fn replace(&self, tag: Tag, payload: impl Into<Bytes>) -> Result<(), SendError> {
        self.replace_with(tag, with(&PLAIN, payload.into()))
    }

    /// Replaces messages like [`Mocket::replace`], with an outcome that can be awaited. It is
    /// [`Outcome::Replaced`](crate::Outcome::Replaced) once a later message has replaced this one.
    ///
    /// # Errors
    /// The same as for [`Mocket::replace`].
    pub fn replace_tracked(&self, tag: Tag, payload: impl Into<Bytes>) -> Result<Delivery, SendError> {
        self.replace_tracked_with(tag, with(&PLAIN, payload.into()))
    }

    pub(super) fn replace_with(&self, tag: Tag, outgoing: Outgoing) -> Result<(), SendError> {
        let (state, _) = self.replace_by(tag, outgoing)?;
        self.shared.drive_or_wake(state);
        Ok(())
    }

    pub(super) fn replace_tracked_with(&self, tag: Tag, outgoing: Outgoing) -> Result<Delivery, SendError> {
        let (state, id) = self.replace_by(tag, Outgoing { tracked: true, ..outgoing })?;
        Ok(self.track(state, id))
    }

    /// Returns the state still locked, so that the caller can register for the outcome before anything is sent.
    fn replace_by(&self, tag: Tag, outgoing: Outgoing) -> Result<(Locked<'_>, MessageId), SendError> {
        let mut state = self.shared.lock();
        let now = self.shared.clock.now();
        let stream = outgoing.stream;
        match state.connection.session().replace(now, stream, tag, outgoing) {
            Ok(id) => Ok((state, id)),
            Err(error) => Err(translate(error, &state).0),
        }
    }

    /// Settings of all messages with a tag. Each chain of calls replaces all settings of the tag; what a chain does
    /// not set goes back to its default.
    ///
    /// ```no_run
    /// # fn example(mocket: whimbrel::Mocket) -> Result<(), whimbrel::SendError> {
    /// # use {std::time::Duration, whimbrel::Tag};
    /// mocket.tag(Tag(2)).bandwidth(25_000)?.lifetime(Duration::from_millis(200))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tag(&self, tag: Tag) -> TagHandle<'_> {
        self.tag_on(StreamId(0), tag)
    }

    pub(crate) fn tag_on(&self, stream: StreamId, tag: Tag) -> TagHandle<'_> {
        TagHandle { mocket: self, stream, tag, settings: TagSettings::default() }
    }
}

/// Settings of a tag's messages. Each call takes effect at once; the bandwidth limit holds for queued messages, too.
#[derive(Debug)]
pub struct TagHandle<'a> {
    mocket: &'a Mocket,
    stream: StreamId,
    tag: Tag,
    settings: TagSettings,
}

impl TagHandle<'_> {
    /// Limits the messages to this many payload bytes per second.
    ///
    /// # Errors
    /// [`SendError::TooManyTags`], or [`SendError::TagTooLarge`].
    pub fn bandwidth(mut self, bytes_per_s: u64) -> Result<Self, SendError> {
        self.settings.bandwidth = Some(bytes_per_s);
        self.apply()
    }

    /// Sets the lifetime of messages sent from now on.
    ///
    /// # Errors
    /// [`SendError::TooManyTags`], or [`SendError::TagTooLarge`].
    pub fn lifetime(mut self, lifetime: Duration) -> Result<Self, SendError> {
        self.settings.lifetime = Some(lifetime);
        self.apply()
    }

    /// Sets the priority of messages sent from now on.
    ///
    /// # Errors
    /// [`SendError::TooManyTags`], or [`SendError::TagTooLarge`].
    pub fn priority(mut self, priority: u8) -> Result<Self, SendError> {
        self.settings.priority = Some(priority);
        self.apply()
    }

    fn apply(self) -> Result<Self, SendError> {
        let mut state = self.mocket.shared.lock();
        let now = self.mocket.shared.clock.now();
        let set = state.connection.session().tag_settings(now, self.stream, self.tag, self.settings);
        set.map_err(|error| translate(error, &state).0)?;
        self.mocket.shared.wake(state);
        Ok(self)
    }
}
