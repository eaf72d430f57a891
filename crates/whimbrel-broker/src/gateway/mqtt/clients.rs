//! The connected clients by their identifiers, and the sessions of those who are away.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use whimbrel_pubsub::message::Message;

use super::away::{AllAway, Away};
use super::kept::Kept;
use super::ranking::Name;
use crate::hub::SessionName;

/// How long a connection that is taken over may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    live: HashMap<Name, Live>,
    away: AllAway,
    /// Names whose sessions are over, and have to be ended on disk.
    over: BTreeSet<Name>,
}

#[derive(Debug)]
struct Live {
    kicked: Arc<Notify>,
    gone: watch::Receiver<()>,
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
        let mut away = inner.away.take(name).unwrap_or_default();
        away.is_over = inner.over.remove(name);
        Ok((Place { clients: Arc::clone(self), name: name.clone(), kicked, _gone }, away))
    }

    /// Puts a session that was found on disk where it was.
    pub(super) fn restore(&self, name: Name, kept: Kept, until: Instant) {
        let away = Away { session: Some((kept, until)), ..Away::default() };
        self.lock().away.put(name, away);
    }

    /// Takes the place of somebody whose session has to be ended on disk. Nobody comes back in between.
    pub(super) fn take_over(self: &Arc<Self>) -> Option<Place> {
        let name = self.lock().over.first().cloned()?;
        // Whoever came back meanwhile ends it.
        self.try_enter(&name).ok().map(|(place, _)| place)
    }

    /// Forgets sessions whose time is over. Returns the Wills that are due, with their users.
    pub(super) fn tick(&self, now: Instant) -> Vec<(Option<String>, Message)> {
        let mut inner = self.lock();
        let (wills, over) = inner.away.tick(now);
        inner.over.extend(over);
        wills
    }

    /// Gives up the Wills whose time has not come. Returns how many.
    pub(super) fn take_wills(&self) -> usize {
        self.lock().away.take_wills()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The user, if there is one.
    pub(super) fn user(&self) -> Option<String> {
        self.name.0.clone()
    }

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
        inner.away.put(self.name.clone(), away);
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
