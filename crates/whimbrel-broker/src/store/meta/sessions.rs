//! The sessions of MQTT clients that are kept.

use whimbrel_pubsub::message::Publication;

use super::core::Meta;
use super::error::MetaError;
use super::session::LONGEST_NAME;
use super::session::{FoundSession, Session};
use super::subscription::SubscriptionName;
use super::tables;
use super::written::Written;

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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use whimbrel_pubsub::message::{ChannelId, PublisherId};

    use super::*;
    use crate::store::DurableSubscription;
    use crate::store::testing::Folder;

    /// Longer than a test: nothing is written late by itself.
    const NEVER: Duration = Duration::from_secs(3_600);

    fn session(ends_ms: Option<u64>) -> Session {
        Session { expiry_s: 60, ends_ms, state: b"what the gateway keeps".to_vec() }
    }

    fn subscription(name: &str) -> DurableSubscription {
        let (owner, filter, selector) = (b"boat".to_vec(), "t/#".to_owned(), None);
        let (name, channels) = (SubscriptionName::new(name).unwrap(), vec![ChannelId(0)]);
        DurableSubscription { name, owner, filter, selector, channels, generation: 1, born: 0 }
    }

    /// The sessions as a crash would leave them now.
    fn crash(file: &Path, copy: &Folder) -> Vec<FoundSession> {
        let copy = copy.0.join("meta.redb");
        fs::copy(file, &copy).unwrap();
        Meta::open(&copy, NEVER).unwrap().sessions().unwrap()
    }

    #[tokio::test]
    async fn a_session_is_on_disk_once_that_is_said_and_gone_once_it_ended() {
        let (folder, copy) = (Folder::new("meta-session"), Folder::new("meta-session-copy"));
        let file = folder.0.join("meta.redb");
        let meta = Meta::open(&file, NEVER).unwrap();
        let publication = |number| Publication { publisher: PublisherId(u128::MAX - 9), number };
        meta.put_received(b"nobody", 1, Some(publication(1)));
        meta.put_session(b"boat", &session(None)).unwrap();
        for id in 1..=3 {
            meta.put_received(b"boat", id, Some(publication(id.into())));
        }
        let kept = subscription("mqtt-boat/t");
        meta.subscribe(&kept).unwrap();
        assert_eq!(crash(&file, &copy), [], "it is late");
        meta.soon().done().await.unwrap();
        let received = |ids: &[u16]| ids.iter().map(|id| (*id, publication((*id).into()))).collect();
        let found = |session, ids| FoundSession { name: b"boat".to_vec(), session, received: received(ids) };
        assert_eq!(crash(&file, &copy), [found(session(None), &[1, 2, 3])]);
        meta.put_received(b"boat", 2, None);
        meta.put_session(b"boat", &session(Some(9))).unwrap();
        // Those who wait together are written together.
        let (first, second) = (meta.soon(), meta.soon());
        second.done().await.unwrap();
        first.done().await.unwrap();
        assert_eq!(crash(&file, &copy), [found(session(Some(9)), &[1, 3])]);
        assert_eq!((meta.ended_sessions(8).len(), meta.ended_sessions(9)), (0, vec![b"boat".to_vec()]));
        meta.put_received(b"boat", 4, Some(publication(4)));
        meta.end_session(Some(b"boat"), std::slice::from_ref(&kept.name)).unwrap();
        meta.soon().done().await.unwrap();
        assert_eq!(crash(&file, &copy), []);
        assert!(meta.subscription(&kept.name).is_none() && meta.tombstone(&kept.name).is_none());
        assert!(!meta.has_session(b"boat"));
        let written = meta.soon();
        drop(meta);
        written.done().await.unwrap();
    }

    #[test]
    fn a_database_without_sessions_is_of_an_earlier_version() {
        let folder = Folder::new("meta-no-session");
        let file = folder.0.join("meta.redb");
        drop(Meta::open(&file, NEVER).unwrap());
        let database = redb::Database::open(&file).unwrap();
        let transaction = database.begin_write().unwrap();
        assert!(transaction.delete_table(tables::SESSIONS).unwrap());
        assert!(transaction.delete_table(tables::RECEIVED).unwrap());
        transaction.commit().unwrap();
        drop(database);
        let meta = Meta::open(&file, NEVER).unwrap();
        assert_eq!(meta.sessions().unwrap(), []);
        meta.put_session(b"boat", &session(None)).unwrap();
        assert_eq!(meta.sessions().unwrap().len(), 1);
    }
}
