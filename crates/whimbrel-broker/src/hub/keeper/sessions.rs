//! Sessions of MQTT clients that survive a restart: their durable subscriptions, and what a gateway keeps of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::{Cover, Coverage};
use whimbrel_pubsub::frame::Refusal;
use whimbrel_pubsub::message::{ChannelId, Publication};

use super::super::core::Hub;
use super::super::logging::Durability;
use super::super::room::Room;
use super::attaching::AttachDurable;
use super::attachment::DurableAttachment;
use super::count::count;
use super::refusals::{refusal, unavailable};
use super::session_name::SessionName;
use super::session_name::is_of_session;
use crate::locking::lock;
use crate::selection::Selection;
use crate::store::{FoundSession, Meta, MetaError, Outbound, Session, Store, SubscriptionName, Written};

/// The most durable subscriptions of one user's sessions. Clients without a name have them together.
const MOST_OF_USER: usize = 10_000;
/// The most durable subscriptions of all sessions, half of those of the broker.
const MOST_OF_SESSIONS: usize = 50_000;

/// The most errands to the disk at a time of one user's sessions, half of all. Clients without a name have them together.
const ERRANDS_OF_USER: usize = 4;

/// A session as it was found at a start.
#[derive(Clone, Debug)]
pub struct KeptSession {
    /// Its name.
    pub name: SessionName,
    /// For how long it is kept after its client left.
    pub expiry: Duration,
    /// For how long it is kept from now on.
    pub left: Duration,
    /// The state that the gateway kept of it.
    pub state: Vec<u8>,
    /// The packet identifiers of messages at QoS 2 that came and were not released.
    pub received: Vec<(u16, Publication)>,
    /// The packet identifiers of messages at QoS 2 to its client that were not completed.
    pub outbound: Vec<(u16, Outbound)>,
}

impl Hub {
    /// The channels that may have messages of a selection, and whether each keeps what a session's subscription wants.
    pub fn channels_of(&self, selection: &Selection) -> Vec<(ChannelId, bool)> {
        let rooms = self.reached(selection.filter()).filter(|room| room.may_have(selection));
        let can_keep = self.keeper.place.folder.is_ok();
        rooms.map(|room| (room.id(), can_keep && room.durability() != Durability::Never)).collect()
    }

    /// Runs what waits for the disk in a thread, for a session, once its user's turn has come. It runs to its end even if nobody waits for it
    /// any more.
    ///
    /// # Errors
    /// The broker stops.
    pub async fn errand_of_session<T: Send + 'static>(
        &self,
        session: &SessionName,
        errand: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let user = format!("user {:?}", session.user);
        self.errands.run_up_to(ERRANDS_OF_USER, user.as_bytes(), errand).await
    }

    /// Keeps everybody from changing what is on disk.
    #[cfg(test)]
    pub(crate) fn hold_changes(&self) -> std::sync::MutexGuard<'_, ()> {
        lock(&self.keeper.changing)
    }

    /// Whether messages of this topic are stored now.
    pub fn is_stored(&self, topic: &str) -> bool {
        self.room_of(topic).is_ok_and(|room| room.logging().log().is_some())
    }

    /// Attaches a session's subscription in these channels, which are durable. A new one begins with what is published from now on. It is on
    /// disk when this returns. Whoever waits for `notify` is woken for it.
    ///
    /// # Errors
    /// It selects something else than before, a limit is reached, or the disk fails.
    pub fn attach_of_session(
        self: &Arc<Self>,
        session: &SessionName,
        (selection, coverage): (Selection, Coverage),
        channels: &[ChannelId],
        notify: Arc<Notify>,
    ) -> Result<DurableAttachment, Refusal> {
        let filter = selection.filter().to_string();
        let name = session.subscription(&filter)?;
        let rooms: Vec<&Room> = self.rooms.iter().filter(|room| channels.contains(&room.id())).collect();
        // Nobody else attaches it, so its generation stays.
        let attach =
            AttachDurable { owner: session.encode(), name: filter, generation: 1, coverage, selection };
        let kept = self.keep(&name, &attach, &rooms, notify)?;
        self.begin(kept, &attach)
    }

    /// Ends a session's subscription to this filter. It is on disk when this returns.
    ///
    /// # Errors
    /// The disk fails.
    pub fn end_of_session(&self, session: &SessionName, filter: &str) -> Result<(), Refusal> {
        let _one = lock(&self.keeper.changing);
        let Some(store) = self.keeper.opened() else { return Ok(()) };
        let name = session.subscription(filter)?;
        if store.meta().subscription(&name).is_some() {
            store.meta().end_session(None, std::slice::from_ref(&name)).map_err(|error| refusal(&error))?;
            self.keeper.presences.forget(&name);
        }
        Ok(())
    }

    /// Keeps a session in place of a former one of that name, for `left` from now on, or while its client is connected. It may have to open the
    /// store the first time.
    ///
    /// # Errors
    /// A limit is reached, or there is no store.
    pub fn keep_session(
        &self,
        session: &SessionName,
        (expiry, left): (Duration, Option<Duration>),
        state: Vec<u8>,
    ) -> Result<(), Refusal> {
        let store = self.keeper.store().map_err(unavailable)?;
        let ends_ms = left.map(|left| self.clock.now().wall_ms.saturating_add(left.as_millis() as u64));
        let expiry_s = u32::try_from(expiry.as_secs()).unwrap_or(u32::MAX);
        let row = Session { expiry_s, ends_ms, state };
        store
            .meta()
            .put_session(&session.encode(), session.user_length(), &row)
            .map_err(|error| refusal(&error))
    }

    /// Takes note of a message at QoS 2 of a session that is kept, or with `None` that it was released.
    pub fn note_received(&self, session: &SessionName, id: u16, publication: Option<Publication>) {
        if let Some(store) = self.keeper.opened() {
            store.meta().put_received(&session.encode(), id, publication);
        }
    }

    /// Takes note of a message at QoS 2 to the client of a session that is kept, or with `None` that it is complete. With `has`, the client has
    /// a message of this subscription.
    pub fn note_outbound(
        &self,
        session: &SessionName,
        outbound: (u16, Option<Outbound>),
        has: Option<(&SubscriptionName, ChannelId, Cover)>,
    ) {
        if let Some(store) = self.keeper.opened() {
            store.meta().put_outbound(&session.encode(), outbound, has);
        }
    }

    /// Has what was changed of sessions written at once.
    ///
    /// # Errors
    /// There is no store.
    pub fn written(&self) -> Result<Written, Refusal> {
        let store = self.keeper.opened().ok_or_else(|| unavailable("the store is closed"))?;
        Ok(store.meta().soon())
    }

    /// Ends a session with its subscriptions. It is on disk when this returns.
    ///
    /// # Errors
    /// The disk fails. The session is still there.
    pub fn end_session(&self, session: &SessionName) -> Result<(), Refusal> {
        let _one = lock(&self.keeper.changing);
        let Some(store) = self.keeper.opened() else { return Ok(()) };
        self.end_all(&store, session).map_err(|error| refusal(&error))
    }

    /// The sessions that were kept, for a start. Those whose time is over are ended, and so are subscriptions of which no session knows.
    ///
    /// # Errors
    /// The disk fails.
    pub fn kept_sessions(&self) -> Result<Vec<KeptSession>, String> {
        self.keeper.has_gateway.store(true, Ordering::Relaxed);
        let Some(store) = self.keeper.opened() else { return Ok(Vec::new()) };
        let meta = store.meta();
        let wall_ms = self.clock.now().wall_ms;
        let mut kept = Vec::new();
        for FoundSession { name, session, received, outbound } in
            meta.sessions().map_err(|error| error.to_string())?
        {
            let expiry = Duration::from_secs(session.expiry_s.into());
            let ends_ms = session.ends_ms.unwrap_or(wall_ms.saturating_add(expiry.as_millis() as u64));
            // A clock that was set back gives no session more than its time.
            let left = Duration::from_millis(ends_ms.saturating_sub(wall_ms)).min(expiry);
            if let Some(name) = SessionName::parse(&name).filter(|_| !left.is_zero()) {
                kept.push(KeptSession { name, expiry, left, state: session.state, received, outbound });
            } else {
                meta.end_session(Some(&name), &[]).map_err(|error| error.to_string())?;
            }
        }
        let known: BTreeSet<_> = kept.iter().map(|session| session.name.begin()).collect();
        let names = meta.subscriptions().into_iter().map(|subscription| subscription.name.clone());
        let lost: Vec<_> =
            names.filter(|name| is_of_session(name) && !known.contains(begin_of(name))).collect();
        if !lost.is_empty() {
            meta.end_session(None, &lost).map_err(|error| error.to_string())?;
        }
        Ok(kept)
    }

    /// A session as it is on disk. `None`: it is not kept.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn kept_session(&self, session: &SessionName) -> Result<Option<FoundSession>, Refusal> {
        let Some(store) = self.keeper.opened() else { return Ok(None) };
        store.meta().session(&session.encode()).map_err(|error| refusal(&error))
    }

    /// Ends sessions that no gateway looks after, as when MQTT is not served any more.
    pub(super) fn end_sessions(&self, store: &Store) -> Result<(), MetaError> {
        if self.keeper.has_gateway.load(Ordering::Relaxed) {
            return Ok(());
        }
        for name in store.meta().ended_sessions(self.clock.now().wall_ms) {
            match SessionName::parse(&name) {
                Some(session) => self.end_all(store, &session)?,
                None => store.meta().end_session(Some(&name), &[])?,
            }
        }
        Ok(())
    }

    fn end_all(&self, store: &Store, session: &SessionName) -> Result<(), MetaError> {
        let (meta, begin) = (store.meta(), session.begin());
        let names = meta.subscriptions().into_iter().map(|subscription| subscription.name.clone());
        let own: Vec<SubscriptionName> = names.filter(|name| begin_of(name) == begin).collect();
        meta.end_session(Some(&session.encode()), &own)?;
        own.iter().for_each(|name| self.keeper.presences.forget(name));
        Ok(())
    }
}

/// Lets the time of sessions begin whose clients were connected when a former run ended.
pub(super) fn leave_all(store: &Store, wall_ms: u64) -> Result<(), MetaError> {
    for FoundSession { name, mut session, .. } in store.meta().sessions()? {
        if session.ends_ms.is_none() {
            session.ends_ms = Some(wall_ms.saturating_add(u64::from(session.expiry_s) * 1_000));
            // It is kept already, and its user has no more by it.
            store.meta().put_session(&name, name.len(), &session)?;
        }
    }
    Ok(())
}

/// Whether another subscription of a session may be kept.
pub(super) fn has_room(meta: &Meta, owner: &[u8]) -> Result<(), MetaError> {
    let user = |owner: &[u8]| SessionName::parse(owner).map(|session| session.user);
    let own = user(owner);
    if count(meta, |other| is_of_session(&other.name) && user(&other.owner) == own) >= MOST_OF_USER {
        return Err(MetaError::TooMany {
            what: "durable subscriptions of your sessions",
            most: MOST_OF_USER,
        });
    }
    if count(meta, |other| is_of_session(&other.name)) >= MOST_OF_SESSIONS {
        return Err(MetaError::TooMany { what: "durable subscriptions of sessions", most: MOST_OF_SESSIONS });
    }
    Ok(())
}

/// The part of a name that says which session's it is.
fn begin_of(name: &SubscriptionName) -> &str {
    name.as_str().split_inclusive('/').next().unwrap_or_default()
}
