//! A report on durable subscriptions and logs. It does not wait for the disk.

use whimbrel_pubsub::coverage::Range;

use super::super::core::Hub;
use super::super::room::Room;
use super::names::name_in;
use super::presence::Presence;
use super::session_name::SessionName;
use super::session_name::is_of_session;
use crate::store::{DurableSubscription, Figures, Meta};

/// A durable subscription, as people see it.
#[derive(Clone, Debug)]
pub struct DurableReport {
    /// Its client's name for it.
    pub name: String,
    /// The client's key.
    pub owner: Vec<u8>,
    /// The session, if it is one of an MQTT client. Its filter is its name then.
    pub session: Option<SessionName>,
    /// Its filter.
    pub filter: String,
    /// The messages that it has not acknowledged, at most, whether they match or not.
    pub lag: u64,
    /// Whether it is attached.
    pub attached: bool,
    /// Since when it is away, milliseconds since 1970. `None`: it is attached, or was away when the broker started.
    pub away_since_ms: Option<u64>,
}

/// A log, as people see it.
#[derive(Clone, Debug)]
pub struct LogReport {
    /// The channel's name.
    pub channel: String,
    /// Figures.
    pub figures: Figures,
    /// Messages that could not be read since the broker started, since the file is damaged.
    pub unreadable: u64,
    /// Messages of other brokers that were delivered live, and that it gets when the disk has room.
    pub owed: u64,
}

impl Hub {
    /// Returns a report on each durable subscription, by client and name.
    pub fn durable_subscriptions(&self) -> Vec<DurableReport> {
        let Some(store) = self.keeper.opened() else { return Vec::new() };
        let report = |subscription: &DurableSubscription| {
            let (attached, away_since_ms) = match self.keeper.presences.of(&subscription.name) {
                Some(Presence::Attached { .. }) => (true, None),
                Some(Presence::Away(since)) => (false, Some(since)),
                None => (false, None),
            };
            let session = is_of_session(&subscription.name);
            let session = session.then(|| SessionName::parse(&subscription.owner)).flatten();
            let name = if session.is_some() { &subscription.filter } else { name_in(&subscription.name) };
            let rooms = subscription.channels.iter().filter_map(|channel| self.room(*channel));
            DurableReport {
                name: name.to_owned(),
                owner: subscription.owner.clone(),
                session,
                filter: subscription.filter.clone(),
                lag: rooms.map(|room| lag(store.meta(), subscription, room)).sum(),
                attached,
                away_since_ms,
            }
        };
        store.meta().subscriptions().iter().map(|subscription| report(subscription)).collect()
    }

    /// Returns a report on each log that messages are appended to.
    pub fn logs(&self) -> Vec<LogReport> {
        let rooms = self.rooms.iter();
        let report = |room: &Room| {
            let figures = room.logging().log()?.figures();
            let unreadable = room.logging().unreadable();
            let owed = room.logging().owed().count();
            Some(LogReport { channel: room.name().to_owned(), figures, unreadable, owed })
        };
        rooms.filter_map(report).collect()
    }
}

fn lag(meta: &Meta, subscription: &DurableSubscription, room: &Room) -> u64 {
    let coverage = meta.coverage(&subscription.name).unwrap_or_default();
    let heads = room.read().heads();
    let uncovered = heads.into_iter().filter_map(|(origin, highest)| {
        let all = Range::new(1, highest)?;
        let covered = coverage.of(room.id()).and_then(|coverage| coverage.of(origin));
        Some(covered.map_or(all.count(), |covered| covered.gaps(all).map(|gap| gap.count()).sum()))
    });
    uncovered.fold(0, u64::saturating_add)
}
