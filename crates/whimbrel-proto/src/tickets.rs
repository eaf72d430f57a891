//! The tickets that a client holds, and a store for them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::Time;
use crate::crypto::{PathMemory, PublicKey};
use crate::wire::Malformed;

/// Begins the next connection to a server without SYN, so that its first packet carries data. It is good once, for
/// the client key that it was issued to. Its bytes are as secret as that key, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    /// The key of the server that issued it.
    pub server_key: PublicKey,
    /// The bytes that the server issued.
    pub bytes: Bytes,
    /// When the ticket expires.
    pub until: Time,
    /// This end's measurements of the path, for a quick start.
    pub memory: Option<PathMemory>,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { server_key, bytes, until, memory } = self;
        write!(f, "Ticket {{ for {server_key}, {} bytes, until {until:?}, {memory:?} }}", bytes.len())
    }
}

/// The newest ticket of each server, for a bounded number of servers. Each ticket is given out once.
#[derive(Debug)]
pub struct TicketStore {
    tickets: BTreeMap<PublicKey, Ticket>,
    bound: usize,
}

/// The start of an export: a name and a version.
const MAGIC: [u8; 5] = *b"whtk\x01";
/// The length of the fields before a ticket: key, end, rate, round trip, length.
const HEAD_LEN: usize = 32 + 3 * 8 + 2;
/// The longest ticket accepted, in bytes.
const LONGEST: usize = 512;
/// The longest lifetime that is believed.
pub(crate) const LONGEST_LIFE: Duration = Duration::from_secs(7 * 86_400);

impl Default for TicketStore {
    fn default() -> Self {
        Self::new(1024)
    }
}

impl TicketStore {
    /// Creates a store for tickets of at most `bound` servers, up to about 700 bytes each.
    pub const fn new(bound: usize) -> Self {
        Self { tickets: BTreeMap::new(), bound }
    }

    /// Returns the number of tickets.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    /// Returns whether there is no ticket.
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Stores a ticket in place of the same server's previous one. At the bound, the ticket that expires first is
    /// dropped.
    pub fn insert(&mut self, ticket: Ticket) {
        if self.bound == 0 || ticket.bytes.len() > LONGEST {
            return;
        }
        if self.tickets.len() >= self.bound && !self.tickets.contains_key(&ticket.server_key) {
            let first =
                self.tickets.values().min_by_key(|ticket| ticket.until).map(|ticket| ticket.server_key);
            first.and_then(|key| self.tickets.remove(&key));
        }
        self.tickets.insert(ticket.server_key, ticket);
    }

    /// Removes and returns the ticket of this server, if there is one that has not expired. A ticket is good once.
    pub fn take(&mut self, now: Time, server_key: &PublicKey) -> Option<Ticket> {
        self.tickets.remove(server_key).filter(|ticket| ticket.until > now)
    }

    /// Exports all tickets as bytes. Keep them as secret as the client's key, and wipe them once written. `wall` is
    /// the wall-clock time since the Unix epoch at `now`.
    pub fn export(&self, now: Time, wall: Duration) -> Vec<u8> {
        // The full capacity is reserved at once, because a buffer that grows leaves copies behind.
        let most: usize = self.tickets.values().map(|ticket| HEAD_LEN + ticket.bytes.len()).sum();
        let mut out = Vec::with_capacity(MAGIC.len() + most);
        out.extend_from_slice(&MAGIC);
        for ticket in self.tickets.values().filter(|ticket| ticket.until > now) {
            let until = wall + ticket.until.since(now);
            let memory = ticket.memory.unwrap_or_default();
            out.extend_from_slice(ticket.server_key.as_bytes());
            out.extend_from_slice(&until.as_secs().to_be_bytes());
            out.extend_from_slice(&memory.rate.to_be_bytes());
            out.extend_from_slice(&crate::time::nanos(memory.rtt).to_be_bytes());
            out.extend_from_slice(&(ticket.bytes.len() as u16).to_be_bytes());
            out.extend_from_slice(&ticket.bytes);
        }
        out
    }

    /// Adds the tickets that [`TicketStore::export`] wrote. Returns how many have not expired.
    ///
    /// # Errors
    /// The bytes are not an export. Tickets before the error were added.
    pub fn import(&mut self, now: Time, wall: Duration, exported: &[u8]) -> Result<usize, Malformed> {
        let mut rest = exported.strip_prefix(&MAGIC).ok_or(Malformed("tickets: not an export"))?;
        let mut count = 0;
        while !rest.is_empty() {
            let server_key =
                PublicKey::new(take(&mut rest)?).map_err(|_| Malformed("tickets: a key that is none"))?;
            let until = Duration::from_secs(u64::from_be_bytes(take(&mut rest)?));
            let rate = u64::from_be_bytes(take(&mut rest)?);
            let rtt = Duration::from_nanos(u64::from_be_bytes(take(&mut rest)?));
            let length = usize::from(u16::from_be_bytes(take(&mut rest)?));
            let (bytes, left) = rest.split_at_checked(length).ok_or(Malformed("tickets: cut short"))?;
            rest = left;
            let left = until.saturating_sub(wall).min(LONGEST_LIFE);
            if left.is_zero() {
                continue;
            }
            let memory = (rate > 0).then_some(PathMemory { rate, rtt });
            let bytes = Bytes::copy_from_slice(bytes);
            self.insert(Ticket { server_key, bytes, until: now + left, memory });
            count += 1;
        }
        Ok(count)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, left) = rest.split_first_chunk().ok_or(Malformed("tickets: cut short"))?;
    *rest = left;
    Ok(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(key: u8, until: u64) -> Ticket {
        Ticket {
            server_key: PublicKey::proven([key; 32]).unwrap(),
            bytes: Bytes::from(vec![key; 80]),
            until: Time::ZERO + Duration::from_secs(until),
            memory: (key > 5).then_some(PathMemory { rate: 7, rtt: Duration::from_millis(key.into()) }),
        }
    }

    #[test]
    fn a_ticket_is_given_out_once_and_not_after_its_end() {
        let mut store = TicketStore::new(2);
        for key in 5..8 {
            store.insert(ticket(key, u64::from(key)));
        }
        assert_eq!(store.len(), 2);
        assert_eq!(store.take(Time::ZERO, &ticket(5, 0).server_key), None, "it would have ended first");
        assert_eq!(store.take(Time::ZERO, &ticket(6, 0).server_key), Some(ticket(6, 6)));
        assert_eq!(store.take(Time::ZERO, &ticket(6, 0).server_key), None);
        assert_eq!(store.take(Time::ZERO + Duration::from_secs(7), &ticket(7, 0).server_key), None);
    }

    #[test]
    fn an_export_outlives_the_process_and_its_clock() {
        let mut store = TicketStore::default();
        store.insert(ticket(5, 100));
        store.insert(ticket(6, 200));
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let exported = store.export(at(50), Duration::from_secs(1_000_000));
        let mut next = TicketStore::default();
        // 60 seconds later, by a clock that starts anew.
        assert_eq!(next.import(at(1), Duration::from_secs(1_000_060), &exported), Ok(1));
        let mut kept = ticket(6, 91);
        assert_eq!(next.take(at(1), &kept.server_key), Some(kept.clone()));
        kept.until = at(92);
        assert_eq!(next.import(at(2), Duration::from_secs(1_000_060), &exported), Ok(1));
        assert_eq!(next.take(at(2), &kept.server_key), Some(kept));
        for cut in 0..exported.len() {
            next.import(at(1), Duration::ZERO, &exported[..cut]).ok();
        }
        assert!(next.import(at(1), Duration::ZERO, &exported[1..]).is_err());
    }
}
