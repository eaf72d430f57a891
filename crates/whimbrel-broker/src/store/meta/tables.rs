//! The tables of the database.

use std::collections::BTreeMap;

use redb::{Error, ReadableTable, TableDefinition, TableError, WriteTransaction};
use whimbrel_pubsub::coverage::{MOST_RANGES, Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, ChannelId, LAST_SEQUENCE, Origin};

use super::outbound::Outbound;
use super::session::{FoundSession, Session};
use super::session::{encode_publication, parse_publication};
use super::state::{Changes, State};
use super::subscription::{DurableSubscription, SubscriptionName, Tombstone};
use crate::store::format::{Cursor, Put, encode_body};

/// The version of the tables.
pub(super) const VERSION: u64 = 1;

/// Numbers by name.
pub(super) const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
pub(super) const SUBSCRIPTIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("subscriptions");
/// By name, channel, broker and epoch.
pub(super) const COVERAGE: TableDefinition<'_, (&str, u32, u64, u64), &[u8]> =
    TableDefinition::new("coverage");
pub(super) const TOMBSTONES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("tombstones");
/// When the subscriptions were made that are there or were ended, by name. Of one that is not here, it is not known.
pub(super) const BIRTHS: TableDefinition<'_, &str, u64> = TableDefinition::new("births");
/// By channel and topic.
pub(super) const RETAINED: TableDefinition<'_, (u32, &[u8]), &[u8]> = TableDefinition::new("retained");
/// The highest sequence by channel, broker and epoch.
pub(super) const ORIGINS: TableDefinition<'_, (u32, u64, u64), u64> = TableDefinition::new("origins");
/// Sessions of MQTT clients by name. Databases of earlier versions have none.
pub(super) const SESSIONS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("sessions");
/// Messages at QoS 2 that were not released, by session and packet identifier.
pub(super) const RECEIVED: TableDefinition<'_, (&[u8], u16), &[u8]> = TableDefinition::new("received");
/// Messages at QoS 2 to clients that are not complete, by session and packet identifier. Databases of earlier versions have none.
pub(super) const OUTBOUND: TableDefinition<'_, (&[u8], u16), &[u8]> = TableDefinition::new("outbound");

/// The name of the version in [`FACTS`].
pub(super) const FACT_VERSION: &str = "version";
const FACT_BROKER: &str = "broker";
/// The prefix of the names of log positions that the last values cover. The channel follows.
const VALUES_UNTIL: &str = "values until ";

type Done = Result<(), Error>;
/// A session and a packet identifier.
type IdentifierKey = (&'static [u8], u16);

/// Creates all tables.
pub(super) fn create(transaction: &WriteTransaction) -> Done {
    transaction.open_table(FACTS)?.insert(FACT_VERSION, VERSION)?;
    transaction.open_table(SUBSCRIPTIONS)?;
    transaction.open_table(COVERAGE)?;
    transaction.open_table(TOMBSTONES)?;
    transaction.open_table(BIRTHS)?;
    transaction.open_table(RETAINED)?;
    transaction.open_table(ORIGINS)?;
    transaction.open_table(SESSIONS)?;
    transaction.open_table(RECEIVED)?;
    transaction.open_table(OUTBOUND)?;
    Ok(())
}

/// Reads all but the last values. `Ok(Err(…))` says what is wrong.
pub(super) fn load(transaction: &redb::ReadTransaction) -> Result<Result<State, &'static str>, Error> {
    let mut state = State::default();
    let facts = transaction.open_table(FACTS)?;
    let births = births(transaction)?;
    let born = |name: &str| births.get(name).copied().unwrap_or(0);
    state.broker = facts.get(FACT_BROKER)?.map(|id| BrokerId(id.value()));
    for row in facts.range(VALUES_UNTIL..)? {
        let (name, end) = row?;
        let channel = name.value().strip_prefix(VALUES_UNTIL).and_then(|channel| channel.parse().ok());
        channel.into_iter().for_each(|channel| state.values.load_mark(ChannelId(channel), end.value()));
    }
    for row in transaction.open_table(SUBSCRIPTIONS)?.iter()? {
        let (name, value) = row?;
        let Some(subscription) = DurableSubscription::parse(name.value(), value.value()) else {
            return Ok(Err("a subscription in it cannot be read"));
        };
        let subscription = DurableSubscription { born: born(name.value()), ..subscription };
        state.subscribe(&subscription, true);
    }
    for row in transaction.open_table(COVERAGE)?.iter()? {
        let (key, value) = row?;
        let (name, channel, broker, epoch) = key.value();
        let origin = Origin { broker: BrokerId(broker), epoch };
        let is_taken = SubscriptionName::new(name)
            .ok()
            .zip(parse_ranges(value.value()))
            .is_some_and(|(name, ranges)| state.load_coverage(&name, ChannelId(channel), origin, &ranges));
        if !is_taken {
            return Ok(Err("a coverage in it cannot be read"));
        }
    }
    for row in transaction.open_table(TOMBSTONES)?.iter()? {
        let (name, value) = row?;
        let found = SubscriptionName::new(name.value()).ok().zip(Tombstone::parse(value.value()));
        let Some((name, tombstone)) = found else {
            return Ok(Err("an ended subscription in it cannot be read"));
        };
        let tombstone = Tombstone { born: born(name.as_str()), ..tombstone };
        state.unsubscribe(&name, tombstone);
    }
    for row in transaction.open_table(ORIGINS)?.iter()? {
        let (key, highest) = row?;
        let (channel, broker, epoch) = key.value();
        let origin = Origin { broker: BrokerId(broker), epoch };
        if state.see(ChannelId(channel), origin, highest.value()).is_err() {
            return Ok(Err("there are more origins in it than can be remembered"));
        }
    }
    for row in rows_of(transaction.open_table(SESSIONS))?.iter().flat_map(|table| table.iter()).flatten() {
        let (name, value) = row?;
        let Some(session) = Session::parse(value.value()) else {
            return Ok(Err("a session in it cannot be read"));
        };
        state.put_session(name.value(), &session);
    }
    state.forget_changes();
    Ok(Ok(state))
}

/// Databases of before have no such table.
fn births(transaction: &redb::ReadTransaction) -> Result<BTreeMap<String, u64>, Error> {
    let Some(table) = rows_of(transaction.open_table(BIRTHS))? else { return Ok(BTreeMap::new()) };
    let births = table.iter()?.map(|row| row.map(|(name, born)| (name.value().to_owned(), born.value())));
    Ok(births.collect::<Result<_, _>>()?)
}

/// A table that may be missing.
pub(super) fn rows_of<T>(opened: Result<T, TableError>) -> Result<Option<T>, Error> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// All sessions, or the one with this name. `Ok(None)`: one cannot be read.
pub(super) fn sessions(
    transaction: &redb::ReadTransaction,
    name: Option<&[u8]>,
) -> Result<Option<Vec<FoundSession>>, Error> {
    let Some(table) = rows_of(transaction.open_table(SESSIONS))? else { return Ok(Some(Vec::new())) };
    let received = rows_of(transaction.open_table(RECEIVED))?;
    let outbound = rows_of(transaction.open_table(OUTBOUND))?;
    let mut found = Vec::new();
    let rows = match name {
        Some(name) => table.range::<&[u8]>(name..=name)?,
        None => table.iter()?,
    };
    for row in rows {
        let (name, value) = row?;
        let Some(session) = Session::parse(value.value()) else { return Ok(None) };
        let name = name.value().to_vec();
        let Some(received) = by_identifier(received.as_ref(), &name, parse_publication)? else {
            return Ok(None);
        };
        let Some(outbound) = by_identifier(outbound.as_ref(), &name, Outbound::parse)? else {
            return Ok(None);
        };
        found.push(FoundSession { name, session, received, outbound });
    }
    Ok(Some(found))
}

/// The rows of a session by packet identifier. `Ok(None)`: one cannot be read.
fn by_identifier<T>(
    table: Option<&redb::ReadOnlyTable<IdentifierKey, &'static [u8]>>,
    name: &[u8],
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Result<Option<Vec<(u16, T)>>, Error> {
    let Some(table) = table else { return Ok(Some(Vec::new())) };
    let rows = table.range((name, 0)..=(name, u16::MAX))?;
    let rows = rows.map(|row| row.map(|(key, value)| Some((key.value().1, parse(value.value())?))));
    Ok(rows.collect::<Result<Option<_>, _>>()?)
}

/// The values of a channel, encoded.
pub(super) fn retained(
    transaction: &redb::ReadTransaction,
    channel: ChannelId,
) -> Result<Vec<Vec<u8>>, Error> {
    let table = transaction.open_table(RETAINED)?;
    let from = (channel.0, &[][..]);
    let rows = match channel.0.checked_add(1) {
        Some(next) => table.range(from..(next, &[][..]))?,
        None => table.range(from..)?,
    };
    rows.map(|row| Ok(row?.1.value().to_vec())).collect()
}

pub(super) fn put_broker(transaction: &WriteTransaction, id: BrokerId) -> Done {
    transaction.open_table(FACTS)?.insert(FACT_BROKER, id.0)?;
    Ok(())
}

pub(super) fn put_subscription(
    transaction: &WriteTransaction,
    subscription: &DurableSubscription,
    is_changed: bool,
) -> Done {
    let name = subscription.name.as_str();
    transaction.open_table(SUBSCRIPTIONS)?.insert(name, &subscription.encode()[..])?;
    transaction.open_table(TOMBSTONES)?.remove(name)?;
    transaction.open_table(BIRTHS)?.insert(name, subscription.born)?;
    if is_changed { remove_coverage(transaction, name) } else { Ok(()) }
}

pub(super) fn put_tombstone(
    transaction: &WriteTransaction,
    name: &SubscriptionName,
    tombstone: Tombstone,
) -> Done {
    transaction.open_table(SUBSCRIPTIONS)?.remove(name.as_str())?;
    transaction.open_table(TOMBSTONES)?.insert(name.as_str(), &tombstone.encode()[..])?;
    transaction.open_table(BIRTHS)?.insert(name.as_str(), tombstone.born)?;
    remove_coverage(transaction, name.as_str())
}

/// Removes a session, and subscriptions of which nothing is remembered.
pub(super) fn remove_session(
    transaction: &WriteTransaction,
    session: Option<&[u8]>,
    subscriptions: &[SubscriptionName],
) -> Done {
    if let Some(name) = session {
        transaction.open_table(SESSIONS)?.remove(name)?;
        let mut received = transaction.open_table(RECEIVED)?;
        received.retain_in((name, 0)..=(name, u16::MAX), |_, _| false)?;
        let mut outbound = transaction.open_table(OUTBOUND)?;
        outbound.retain_in((name, 0)..=(name, u16::MAX), |_, _| false)?;
    }
    for name in subscriptions {
        transaction.open_table(SUBSCRIPTIONS)?.remove(name.as_str())?;
        transaction.open_table(BIRTHS)?.remove(name.as_str())?;
        remove_coverage(transaction, name.as_str())?;
    }
    Ok(())
}

pub(super) fn remove_tombstones(transaction: &WriteTransaction, names: &[SubscriptionName]) -> Done {
    let mut table = transaction.open_table(TOMBSTONES)?;
    let mut births = transaction.open_table(BIRTHS)?;
    for name in names {
        table.remove(name.as_str())?;
        births.remove(name.as_str())?;
    }
    Ok(())
}

pub(super) fn remove_origin(
    transaction: &WriteTransaction,
    channel: ChannelId,
    Origin { broker, epoch }: Origin,
    names: &[SubscriptionName],
) -> Done {
    transaction.open_table(ORIGINS)?.remove((channel.0, broker.0, epoch))?;
    let mut coverage = transaction.open_table(COVERAGE)?;
    for name in names {
        coverage.remove((name.as_str(), channel.0, broker.0, epoch))?;
    }
    Ok(())
}

/// Writes what has changed.
pub(super) fn put_changes(transaction: &WriteTransaction, changes: &Changes) -> Done {
    let mut coverage = transaction.open_table(COVERAGE)?;
    for ((name, channel, Origin { broker, epoch }), ranges) in &changes.coverage {
        coverage.insert((name.as_str(), channel.0, broker.0, *epoch), &encode_ranges(ranges)[..])?;
    }
    let mut retained = transaction.open_table(RETAINED)?;
    for ((channel, topic), value) in &changes.values {
        match value {
            Some(entry) => retained.insert((channel.0, &topic[..]), &encode_body(entry)[..])?,
            None => retained.remove((channel.0, &topic[..]))?,
        };
    }
    let mut facts = transaction.open_table(FACTS)?;
    for (channel, end) in &changes.marks {
        facts.insert(&*format!("{VALUES_UNTIL}{}", channel.0), end)?;
    }
    let mut origins = transaction.open_table(ORIGINS)?;
    for ((channel, Origin { broker, epoch }), highest) in &changes.origins {
        origins.insert((channel.0, broker.0, *epoch), highest)?;
    }
    let mut sessions = transaction.open_table(SESSIONS)?;
    for (name, session) in &changes.sessions {
        sessions.insert(&name[..], &session.encode()[..])?;
    }
    let mut received = transaction.open_table(RECEIVED)?;
    for ((name, id), publication) in &changes.received {
        match publication {
            Some(publication) => received.insert((&name[..], *id), &encode_publication(*publication)[..])?,
            None => received.remove((&name[..], *id))?,
        };
    }
    let mut outbound = transaction.open_table(OUTBOUND)?;
    for ((name, id), state) in &changes.outbound {
        match state {
            Some(state) => outbound.insert((&name[..], *id), &state.encode()[..])?,
            None => outbound.remove((&name[..], *id))?,
        };
    }
    remove_tombstones(transaction, &changes.given_way)
}

fn remove_coverage(transaction: &WriteTransaction, name: &str) -> Done {
    let mut table = transaction.open_table(COVERAGE)?;
    let rows = (name, 0, 0, 0)..=(name, u32::MAX, u64::MAX, u64::MAX);
    table.retain_in(rows, |_, _| false)?;
    Ok(())
}

fn encode_ranges(ranges: &Ranges) -> Vec<u8> {
    let mut out = Vec::with_capacity(ranges.len() * 16);
    for range in ranges.iter() {
        out.put_u64(range.first);
        out.put_u64(range.last);
    }
    out
}

fn parse_ranges(bytes: &[u8]) -> Option<Ranges> {
    let (mut cursor, mut ranges, mut number) = (Cursor(bytes), Ranges::default(), 0);
    while !cursor.is_empty() {
        let range = Range::new(cursor.u64()?, cursor.u64()?)?;
        if range.first == 0 || range.last > LAST_SEQUENCE || range.first <= ranges.highest() {
            return None;
        }
        ranges.insert(range);
        number += 1;
    }
    (number <= MOST_RANGES).then_some(ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_panic_nowhere(bytes in proptest::collection::vec(any::<u8>(), 0..100), name: String) {
            if let Some(ranges) = parse_ranges(&bytes) {
                prop_assert_eq!(parse_ranges(&encode_ranges(&ranges)), Some(ranges));
            }
            if let Some(found) = DurableSubscription::parse(&name, &bytes) {
                prop_assert_eq!(found.encode(), bytes.clone());
            }
            if let Some(found) = Session::parse(&bytes) {
                prop_assert_eq!(found.encode(), bytes.clone());
            }
            if let Some(found) = parse_publication(&bytes) {
                prop_assert_eq!(encode_publication(found), bytes.clone());
            }
            if let Some(found) = Outbound::parse(&bytes) {
                prop_assert_eq!(found.encode(), bytes.clone());
            }
            if let Some(found) = Tombstone::parse(&bytes) {
                prop_assert_eq!(found.encode(), bytes);
            }
        }
    }
}
