//! The sessions of MQTT clients that are kept.

use whimbrel_pubsub::coverage::Cover;
use whimbrel_pubsub::message::{ChannelId, Publication};

use super::core::Meta;
use super::error::MetaError;
use super::outbound::Outbound;
use super::session::LONGEST_NAME;
use super::session::{FoundSession, Session};
use super::subscription::SubscriptionName;
use super::tables;
use super::written::Written;

/// The most sessions of a broker.
const MOST_SESSIONS: usize = 100_000;
/// The most of one user, so that others have room. Clients without a name have them together.
const MOST_SESSIONS_OF_USER: usize = 50_000;

impl Meta {
    /// Returns all sessions, with the messages at QoS 2 that were not released.
    ///
    /// # Errors
    /// They cannot be written or read.
    pub fn sessions(&self) -> Result<Vec<FoundSession>, MetaError> {
        self.flush()?;
        self.writer.sessions()
    }

    /// A session, with the messages at QoS 2 that were not released.
    ///
    /// # Errors
    /// It cannot be written or read.
    pub fn session(&self, name: &[u8]) -> Result<Option<FoundSession>, MetaError> {
        self.flush()?;
        self.writer.session(name)
    }

    /// Returns whether a session is kept.
    pub fn has_session(&self, name: &[u8]) -> bool {
        self.writer.state().has_session(name)
    }

    /// Returns the sessions whose time was over at `wall_ms`.
    pub fn ended_sessions(&self, wall_ms: u64) -> Vec<Vec<u8>> {
        self.writer.state().ended_sessions(wall_ms)
    }

    /// Keeps a session, in place of a former one of that name; written later. [`Meta::soon`] tells when. The names of all sessions of its user
    /// begin with the first `of_user` bytes of its own.
    ///
    /// # Errors
    /// The name is too long, or there are too many sessions.
    pub fn put_session(&self, name: &[u8], of_user: usize, session: &Session) -> Result<(), MetaError> {
        if name.len() > LONGEST_NAME {
            let (what, bytes, most) = ("session's name", name.len(), LONGEST_NAME);
            return Err(MetaError::TooLong { what, bytes, most });
        }
        let mut state = self.writer.state();
        if !state.has_session(name) {
            if state.session_count() >= MOST_SESSIONS {
                return Err(MetaError::TooMany { what: "sessions", most: MOST_SESSIONS });
            }
            // Nobody has so many while there are fewer.
            let may_be_full = state.session_count() >= MOST_SESSIONS_OF_USER;
            let user = name.get(..of_user).unwrap_or(name);
            if may_be_full && state.sessions_of(user) >= MOST_SESSIONS_OF_USER {
                return Err(MetaError::TooMany {
                    what: "sessions of your user",
                    most: MOST_SESSIONS_OF_USER,
                });
            }
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

    /// Takes note of a message at QoS 2 to a client, or with `None` that it is complete; written later. [`Meta::soon`] tells when. With
    /// `has`, the client has a message of this subscription: it is never on disk without that. A session that is not kept has no messages.
    pub fn put_outbound(
        &self,
        name: &[u8],
        (id, outbound): (u16, Option<Outbound>),
        has: Option<(&SubscriptionName, ChannelId, Cover)>,
    ) {
        let mut state = self.writer.state();
        if let Some((subscription, channel, Cover { origin, range })) = has {
            // One that was ended meanwhile, or whose coverage is full, gets nothing wrong by it.
            state.add(subscription, channel, origin, range).ok();
        }
        if state.has_session(name) {
            state.put_outbound(name, id, outbound);
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

    use whimbrel_pubsub::coverage::Range;
    use whimbrel_pubsub::message::PublisherId;

    use super::super::outbound::MessageName;
    use super::*;
    use crate::store::DurableSubscription;
    use crate::store::testing::{Folder, origin};

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
        meta.put_session(b"boat", 4, &session(None)).unwrap();
        for id in 1..=3 {
            meta.put_received(b"boat", id, Some(publication(id.into())));
        }
        let kept = subscription("mqtt-boat/t");
        meta.subscribe(&kept).unwrap();
        assert_eq!(crash(&file, &copy), [], "it is late");
        meta.soon().done().await.unwrap();
        let received = |ids: &[u16]| ids.iter().map(|id| (*id, publication((*id).into()))).collect();
        let found = |session, ids| {
            let (name, outbound) = (b"boat".to_vec(), Vec::new());
            FoundSession { name, session, received: received(ids), outbound }
        };
        assert_eq!(crash(&file, &copy), [found(session(None), &[1, 2, 3])]);
        meta.put_received(b"boat", 9, Some(publication(9)));
        assert_eq!(meta.session(b"boat").unwrap(), Some(found(session(None), &[1, 2, 3, 9])));
        assert_eq!(meta.session(b"boa").unwrap(), None);
        meta.put_received(b"boat", 9, None);
        meta.put_received(b"boat", 2, None);
        meta.put_session(b"boat", 4, &session(Some(9))).unwrap();
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

    #[tokio::test]
    async fn what_a_client_has_at_qos_2_is_covered_wherever_its_identifier_says_so() {
        let (folder, copy) = (Folder::new("meta-outbound"), Folder::new("meta-outbound-copy"));
        let file = folder.0.join("meta.redb");
        let meta = Meta::open(&file, NEVER).unwrap();
        let (kept, origin) = (subscription("mqtt-boat/t"), origin(7));
        let message = |sequence| {
            let (subscription, channel) = (kept.name.clone(), ChannelId(0));
            Outbound::Sent(Some(MessageName { subscription, channel, origin, sequence }))
        };
        meta.put_session(b"boat", 4, &session(None)).unwrap();
        meta.subscribe(&kept).unwrap();
        meta.put_outbound(b"nobody", (1, Some(Outbound::Released)), None);
        for id in 1..=3 {
            meta.put_outbound(b"boat", (id, Some(message(id.into()))), None);
        }
        meta.put_outbound(b"boat", (4, Some(Outbound::Sent(None))), None);
        meta.soon().done().await.unwrap();
        let outbound = |file: &Path| crash(file, &copy).remove(0).outbound;
        let sent = |id: u16| (id, message(id.into()));
        assert_eq!(outbound(&file), [sent(1), sent(2), sent(3), (4, Outbound::Sent(None))]);
        let cover = Cover { origin, range: Range { first: 2, last: 2 } };
        meta.put_outbound(b"boat", (2, Some(Outbound::Released)), Some((&kept.name, ChannelId(0), cover)));
        meta.put_outbound(b"boat", (3, None), None);
        meta.soon().done().await.unwrap();
        assert_eq!(outbound(&file), [sent(1), (2, Outbound::Released), (4, Outbound::Sent(None))]);
        let copied = Meta::open(&copy.0.join("meta.redb"), NEVER).unwrap();
        let coverage = copied.coverage(&kept.name).unwrap();
        assert!(coverage.of(ChannelId(0)).unwrap().of(origin).unwrap().contains(2));
        drop(copied);
        meta.end_session(Some(b"boat"), &[]).unwrap();
        meta.put_session(b"boat", 4, &session(None)).unwrap();
        meta.soon().done().await.unwrap();
        assert_eq!(outbound(&file), [], "nothing is left for another session of that name");
    }

    /// A user who had them all kept others from having one.
    #[test]
    fn regression_sessions_of_a_user_leave_room_for_those_of_others() {
        let folder = Folder::new("meta-sessions-of-user");
        let meta = Meta::open(&folder.0.join("meta.redb"), NEVER).unwrap();
        let put = |user: &str, client: usize| {
            meta.put_session(format!("{user}{client}").as_bytes(), user.len(), &session(None))
        };
        (0..MOST_SESSIONS_OF_USER).for_each(|client| put("flood/", client).unwrap());
        let error = put("flood/", MOST_SESSIONS_OF_USER).unwrap_err();
        assert!(error.to_string().contains("of your user"), "{error}");
        put("flood/", 0).unwrap();
        put("fisher/", 0).unwrap();
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
        assert!(transaction.delete_table(tables::OUTBOUND).unwrap());
        transaction.commit().unwrap();
        drop(database);
        let meta = Meta::open(&file, NEVER).unwrap();
        assert_eq!(meta.sessions().unwrap(), []);
        meta.put_session(b"boat", 4, &session(None)).unwrap();
        assert_eq!(meta.sessions().unwrap().len(), 1);
    }
}
