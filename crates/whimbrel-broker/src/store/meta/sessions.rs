//! What is kept of MQTT clients' sessions.

use whimbrel_pubsub::message::Publication;

use super::session::LONGEST_NAME;
use super::{FoundSession, Meta, MetaError, Session, SubscriptionName, Written, tables};

/// The most sessions of a broker.
const MOST_SESSIONS: usize = 100_000;

impl Meta {
    /// All sessions, with the messages at QoS 2 that were not released.
    ///
    /// # Errors
    /// They cannot be written or read.
    pub fn sessions(&self) -> Result<Vec<FoundSession>, MetaError> {
        self.flush()?;
        self.writer.sessions()
    }

    /// Whether a session is kept.
    pub fn has_session(&self, name: &[u8]) -> bool {
        self.writer.state().has_session(name)
    }

    /// The sessions whose time was over at `wall_ms`.
    pub fn ended_sessions(&self, wall_ms: u64) -> Vec<Vec<u8>> {
        self.writer.state().ended_sessions(wall_ms)
    }

    /// Keeps a session, in place of a former one of that name; written later. [`Meta::soon`] tells when.
    ///
    /// # Errors
    /// The name is too long, or there are too many sessions.
    pub fn put_session(&self, name: &[u8], session: &Session) -> Result<(), MetaError> {
        if name.len() > LONGEST_NAME {
            let (what, bytes, most) = ("session's name", name.len(), LONGEST_NAME);
            return Err(MetaError::TooLong { what, bytes, most });
        }
        let mut state = self.writer.state();
        if state.session_count() >= MOST_SESSIONS && !state.has_session(name) {
            return Err(MetaError::TooMany { what: "sessions", most: MOST_SESSIONS });
        }
        state.put_session(name, session);
        drop(state);
        self.writer.write_later();
        Ok(())
    }

    /// Takes note of a message at QoS 2 that came, or with `None` that it was released; written later. [`Meta::soon`] tells when. A session
    /// that is not kept has no messages.
    pub fn put_received(&self, name: &[u8], id: u16, publication: Option<Publication>) {
        let mut state = self.writer.state();
        if state.has_session(name) {
            state.put_received(name, id, publication);
        }
        drop(state);
        self.writer.write_later();
    }

    /// Has what was changed written at once. The outcome can be waited for.
    pub fn soon(&self) -> Written {
        self.writer.write_soon()
    }

    /// Ends a session, and subscriptions, of which nothing is remembered. It is on disk when this returns.
    ///
    /// # Errors
    /// It cannot be written. Nothing is ended then.
    pub fn end_session(
        &self,
        name: Option<&[u8]>,
        subscriptions: &[SubscriptionName],
    ) -> Result<(), MetaError> {
        let _one = self.writer.changing();
        self.writer.write_now(
            |transaction| tables::remove_session(transaction, name, subscriptions),
            |state| state.remove_session(name, subscriptions),
        )
    }
}
