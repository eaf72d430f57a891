//! The connected clients by their identifiers, and the sessions of those who are away.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use whimbrel_pubsub::message::Message;

use super::kept::Kept;
use crate::hub::SessionName;

/// The user, if there is one, and the client identifier: a user cannot take over another's session.
pub(super) type Name = (Option<String>, String);

/// How long a connection that is taken over may take to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most sessions that are kept for clients that are away, beside those on disk, which the store limits.
pub(super) const MOST_KEPT: usize = 10_000;
/// The most bytes of all of them, roughly.
pub(super) const MOST_KEPT_BYTES: usize = 256 << 20;

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    live: HashMap<Name, Live>,
    away: BTreeMap<Name, Away>,
    bytes: usize,
    /// The number of those whose sessions are on disk, too.
    stored: usize,
    /// Names whose sessions are over, and have to be ended on disk.
    over: BTreeSet<Name>,
}

#[derive(Debug)]
struct Live {
    kicked: Arc<Notify>,
    gone: watch::Receiver<()>,
}

/// The state that is left of a client that went.
#[derive(Debug, Default)]
pub(super) struct Away {
    /// Its session, and how long it is kept.
    pub(super) session: Option<(Kept, Instant)>,
    /// Its Will, and when it is published.
    pub(super) will: Option<(Message, Instant)>,
    /// Whether a former session is over, and has to be ended on disk.
    pub(super) is_over: bool,
}

/// A client's place among the connected ones.
#[derive(Debug)]
pub(super) struct Place {
    clients: Arc<Clients>,
    name: Name,
    kicked: Arc<Notify>,
    _gone: watch::Sender<()>,
}

impl Clients {
    /// Takes the place of `name`, and with it the session of that name. Who had it is sent away first. Fails if that takes too long.
    pub(super) async fn enter(self: &Arc<Self>, name: Name) -> Option<(Place, Away)> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let mut gone = match self.try_enter(&name) {
                Ok(entered) => return Some(entered),
                Err(gone) => gone,
            };
            // The sender is dropped with the place.
            let ended = tokio::time::timeout_at(deadline, gone.changed()).await;
            ended.ok()?.err()?;
        }
    }

    fn try_enter(self: &Arc<Self>, name: &Name) -> Result<(Place, Away), watch::Receiver<()>> {
        let mut inner = self.lock();
        if let Some(live) = inner.live.get(name) {
            live.kicked.notify_one();
            return Err(live.gone.clone());
        }
        let (_gone, gone) = watch::channel(());
        let kicked = Arc::new(Notify::new());
        inner.live.insert(name.clone(), Live { kicked: Arc::clone(&kicked), gone });
        let mut away = inner.take(name).unwrap_or_default();
        away.is_over = inner.over.remove(name);
        Ok((Place { clients: Arc::clone(self), name: name.clone(), kicked, _gone }, away))
    }

    /// Puts a session that was found on disk where it was.
    pub(super) fn restore(&self, name: Name, kept: Kept, until: Instant) {
        let mut inner = self.lock();
        let away = Away { session: Some((kept, until)), ..Away::default() };
        inner.put(name, away);
    }

    /// Takes the place of somebody whose session has to be ended on disk. Nobody comes back in between.
    pub(super) fn take_over(self: &Arc<Self>) -> Option<Place> {
        let name = self.lock().over.first().cloned()?;
        // Whoever came back meanwhile ends it.
        self.try_enter(&name).ok().map(|(place, _)| place)
    }

    /// Forgets sessions whose time is over. Returns the Wills that are due.
    pub(super) fn tick(&self, now: Instant) -> Vec<Message> {
        let mut inner = self.lock();
        let mut wills = Vec::new();
        let Inner { away, bytes, stored, over, .. } = &mut *inner;
        away.retain(|name, away| {
            let is_over = away.session.as_ref().is_some_and(|(_, until)| *until <= now);
            if is_over && let Some((kept, _)) = away.session.take() {
                *bytes = bytes.saturating_sub(kept.bytes());
                if kept.is_stored {
                    *stored -= 1;
                    over.insert(name.clone());
                }
            }
            if let Some((_, at)) = &away.will
                && (*at <= now || away.session.is_none())
            {
                let due = away.will.take().map(|(message, _)| message);
                *bytes = bytes.saturating_sub(due.as_ref().map_or(0, |will| will.encoded().len()));
                wills.extend(due);
            }
            away.session.is_some() || away.will.is_some()
        });
        wills
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take(&mut self, name: &Name) -> Option<Away> {
        let away = self.away.remove(name)?;
        self.bytes = self.bytes.saturating_sub(away.bytes());
        self.stored -= usize::from(away.is_stored());
        Some(away)
    }

    /// Keeps what is left of a client. Others may have to go for it.
    fn put(&mut self, name: Name, away: Away) {
        self.bytes += away.bytes();
        self.stored += usize::from(away.is_stored());
        self.away.insert(name, away);
        self.make_room();
    }

    fn has_too_many(&self) -> bool {
        self.away.len() - self.stored > MOST_KEPT
    }

    /// Makes room by giving up the sessions that end first, of the user who has the most: users do not lose theirs to others. Their
    /// Wills are published at the next tick.
    fn make_room(&mut self) {
        while self.has_too_many() || self.bytes > MOST_KEPT_BYTES {
            // What is on disk was promised. Only its memory has a limit here.
            let may_go = |away: &Away| self.bytes > MOST_KEPT_BYTES || !away.is_stored();
            let mut users = BTreeMap::<_, usize>::new();
            for ((user, _), away) in self.away.iter().filter(|(_, away)| may_go(away)) {
                *users.entry(user).or_default() += away.bytes();
            }
            let Some((most, _)) = users.into_iter().max_by_key(|(_, bytes)| *bytes) else { return };
            let ends = |away: &Away| away.session.as_ref().map(|(_, until)| *until);
            let of_user = self.away.iter().filter(|((user, _), away)| user == most && may_go(away));
            let sessions = of_user.filter_map(|(name, away)| Some((ends(away)?, name)));
            let Some((_, first)) = sessions.min() else { return };
            let first = first.clone();
            if let Some(away) = self.away.get_mut(&first)
                && let Some((kept, _)) = away.session.take()
            {
                self.bytes = self.bytes.saturating_sub(kept.bytes());
                if kept.is_stored {
                    self.stored -= 1;
                    self.over.insert(first.clone());
                }
                if away.will.is_none() {
                    self.away.remove(&first);
                }
            }
        }
    }
}

impl Away {
    fn is_stored(&self) -> bool {
        self.session.as_ref().is_some_and(|(kept, _)| kept.is_stored)
    }

    fn bytes(&self) -> usize {
        let will = self.will.as_ref().map_or(0, |(message, _)| message.encoded().len());
        will + self.session.as_ref().map_or(0, |(kept, _)| kept.bytes())
    }
}

impl Place {
    /// The session's name.
    pub(super) fn session(&self) -> SessionName {
        let (user, client) = self.name.clone();
        SessionName { user, client }
    }

    /// The session could not be ended on disk. That is tried again.
    pub(super) fn try_again(self) {
        self.clients.lock().over.insert(self.name.clone());
    }

    /// Waits until another connection takes over.
    pub(super) async fn kicked(&self) {
        self.kicked.notified().await;
    }

    /// Leaves what is kept of the client.
    pub(super) fn leave(self, away: Away) {
        let mut inner = self.clients.lock();
        if away.is_over {
            inner.over.insert(self.name.clone());
        }
        if away.session.is_some() || away.will.is_some() {
            inner.put(self.name.clone(), away);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.lock().live.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn leave(clients: &Arc<Clients>, user: Option<&str>, client: usize, ends: Instant) {
        let name = (user.map(str::to_owned), client.to_string());
        let (place, _) = clients.enter(name).await.unwrap();
        place.leave(Away { session: Some((Kept::default(), ends)), ..Away::default() });
    }

    fn has(clients: &Clients, user: Option<&str>, client: usize) -> bool {
        clients.lock().away.contains_key(&(user.map(str::to_owned), client.to_string()))
    }

    #[tokio::test]
    async fn sessions_are_bounded_and_users_keep_theirs() {
        let (clients, now) = (Arc::<Clients>::default(), Instant::now());
        let soon = now + Duration::from_secs(1);
        leave(&clients, Some("fisher"), 0, soon).await;
        for client in 0..=MOST_KEPT {
            leave(&clients, None, client, soon + Duration::from_secs(client as u64)).await;
        }
        assert_eq!(clients.lock().away.len(), MOST_KEPT);
        assert!(has(&clients, Some("fisher"), 0), "another's flood does not reach it");
        assert!(!has(&clients, None, 0) && !has(&clients, None, 1) && has(&clients, None, 2));
        clients.tick(soon + Duration::from_secs(MOST_KEPT as u64));
        let inner = clients.lock();
        assert_eq!((inner.away.len(), inner.bytes), (0, 0));
    }

    /// A restart would otherwise end sessions that CONNACK had promised.
    #[tokio::test]
    async fn regression_sessions_on_disk_take_no_place_of_those_in_memory() {
        let (clients, now) = (Arc::<Clients>::default(), Instant::now());
        let until = now + Duration::from_secs(60);
        for client in 0..=MOST_KEPT {
            let stored = Kept { is_stored: true, ..Kept::default() };
            clients.restore((None, format!("stored {client}")), stored, until);
        }
        leave(&clients, None, 1, until).await;
        let inner = clients.lock();
        assert_eq!((inner.away.len(), inner.over.len()), (MOST_KEPT + 2, 0));
    }

    #[tokio::test]
    async fn a_session_on_disk_is_ended_there_before_its_name_is_given_again() {
        let (clients, now) = (Arc::<Clients>::default(), Instant::now());
        let until = now + Duration::from_secs(1);
        for client in ["comes", "stays away"] {
            clients.restore((None, client.to_owned()), Kept { is_stored: true, ..Kept::default() }, until);
        }
        assert!(clients.take_over().is_none());
        clients.tick(until);
        let (_place, away) = clients.enter((None, "comes".to_owned())).await.unwrap();
        assert!(away.is_over && away.session.is_none(), "whoever comes ends it");
        let place = clients.take_over().unwrap();
        assert_eq!(place.session().client, "stays away");
        assert!(
            clients.take_over().is_none() && clients.try_enter(&(None, "stays away".to_owned())).is_err()
        );
        place.try_again();
        assert!(clients.take_over().is_some(), "it is tried again");
        assert!(clients.lock().over.is_empty());
    }

    #[tokio::test]
    async fn a_name_is_given_once_it_is_free() {
        let clients = Arc::<Clients>::default();
        let name: Name = (None, "same".to_owned());
        let (first, _) = clients.enter(name.clone()).await.unwrap();
        let other = (Some("fisher".to_owned()), "same".to_owned());
        assert!(clients.enter(other).await.is_some(), "another user's client is another");
        let (again, waiting) = (Arc::clone(&clients), name.clone());
        let second = tokio::spawn(async move { again.enter(waiting).await });
        first.kicked().await;
        assert!(!second.is_finished());
        let until = Instant::now() + Duration::from_secs(60);
        first.leave(Away { session: Some((Kept::default(), until)), ..Away::default() });
        let (_, away) = second.await.unwrap().unwrap();
        assert!(away.session.is_some());
    }
}
