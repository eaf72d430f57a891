//! Messages whose append nobody waits for.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::core::Log;
use super::locking::lock;
use super::ticket::Ticket;
use crate::store::error::AppendError;
use crate::store::format::Entry;

/// The most messages of other brokers that wait until they are on disk. Beyond, none is taken: they are asked for again.
const MOST_LATER: usize = 65_536;

/// Messages that are appended until they are on disk. Whoever sent them does not send them again, so a disk that is full for a while must
/// not lose them.
#[derive(Debug, Default)]
pub(crate) struct Later(Mutex<VecDeque<(Entry, Ticket)>>);

impl Later {
    /// Appends a message, now and whenever there is room for it. Returns whether it does so: if not, the message has to come again.
    pub(crate) fn append(&self, log: &Log, entry: Entry) -> bool {
        let mut waiting = lock(&self.0);
        while waiting.front().is_some_and(|(_, ticket)| matches!(ticket.outcome(), Some(Ok(_)))) {
            waiting.pop_front();
        }
        if waiting.len() >= MOST_LATER {
            return false;
        }
        let ticket = log.append(&entry);
        ticket.is_ok_and(|ticket| {
            waiting.push_back((entry, ticket));
            true
        })
    }

    /// Appends again what did not fit. Call it several times a second.
    pub(crate) fn again(&self, log: &Log) {
        lock(&self.0).retain_mut(|(entry, ticket)| match ticket.outcome() {
            None => true,
            Some(Err(AppendError::Full(_) | AppendError::Busy(_))) => {
                if let Ok(again) = log.append(entry) {
                    *ticket = again;
                }
                true
            }
            // A log that takes nothing is opened again, and learns from other brokers what it lacks.
            Some(_) => false,
        });
    }

    /// Forgets all, since nothing is appended any more.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}
