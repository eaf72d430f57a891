//! Sessions by who has the most of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The user, if there is one, and the client identifier: a user cannot take over another's session.
pub(super) type Name = (Option<String>, String);

/// Sessions in the order in which they give way: those of the user with the most bytes, and of these the one that ends first. So users do not
/// lose theirs to others.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    users: BTreeMap<Option<String>, User>,
    /// The users by their bytes.
    ranks: BTreeSet<(usize, Option<String>)>,
    sessions: usize,
}

#[derive(Debug, Default)]
struct User {
    bytes: usize,
    /// The clients by when their sessions end.
    clients: BTreeSet<(Instant, String)>,
}

impl Ranking {
    pub(super) fn insert(&mut self, (user, client): &Name, ends: Instant, bytes: usize) {
        self.change(user, |of| {
            of.bytes += bytes;
            of.clients.insert((ends, client.clone()));
        });
        self.sessions += 1;
    }

    /// Removes a session that was inserted with the same values.
    pub(super) fn remove(&mut self, (user, client): &Name, ends: Instant, bytes: usize) {
        self.change(user, |of| {
            of.bytes = of.bytes.saturating_sub(bytes);
            of.clients.remove(&(ends, client.clone()));
        });
        self.sessions -= 1;
    }

    /// The number of sessions.
    pub(super) fn len(&self) -> usize {
        self.sessions
    }

    /// The bytes of the user who has the most.
    pub(super) fn most(&self) -> usize {
        self.ranks.last().map_or(0, |(bytes, _)| *bytes)
    }

    /// The session that gives way first.
    pub(super) fn first(&self) -> Option<Name> {
        let (_, user) = self.ranks.last()?;
        let (_, client) = self.users.get(user)?.clients.first()?;
        Some((user.clone(), client.clone()))
    }

    fn change(&mut self, user: &Option<String>, change: impl FnOnce(&mut User)) {
        let mut of = self.users.remove(user).unwrap_or_default();
        self.ranks.remove(&(of.bytes, user.clone()));
        change(&mut of);
        if !of.clients.is_empty() {
            self.ranks.insert((of.bytes, user.clone()));
            self.users.insert(user.clone(), of);
        }
    }
}
