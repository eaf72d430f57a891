//! Messages whose append nobody waits for.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::core::Log;
use super::ticket::Ticket;
use crate::locking::lock;
use crate::store::error::AppendError;
use crate::store::format::Entry;

/// The most bytes of other brokers' messages that wait until they are on disk. Beyond, none is taken: the log gets them later.
const MOST_LATER: usize = 32 << 20;
/// The most messages that are appended again in one go: each attempt costs a write while the disk is full.
const MOST_AGAIN: usize = 256;

/// Messages that are appended until they are on disk. Whoever sent them does not send them again, so a disk that is full for a while must
/// not lose them.
#[derive(Debug, Default)]
pub(crate) struct Later(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    appends: VecDeque<(Entry, Ticket)>,
    bytes: usize,
}

impl Later {
    /// Appends a message, now and whenever there is room for it. Returns whether it does so: if not, the message has to come again.
    pub(crate) fn append(&self, log: &Log, entry: Entry) -> bool {
        let mut waiting = lock(&self.0);
        if !waiting.has_room() {
            return false;
        }
        let Ok(ticket) = log.append(&entry) else { return false };
        waiting.bytes += size(&entry);
        waiting.appends.push_back((entry, ticket));
        true
    }

    /// Whether another message may wait.
    pub(crate) fn has_room(&self) -> bool {
        lock(&self.0).has_room()
    }

    /// Appends again what did not fit. Call it several times a second.
    pub(crate) fn again(&self, log: &Log) {
        let mut waiting = lock(&self.0);
        let Waiting { appends, bytes } = &mut *waiting;
        let mut left = MOST_AGAIN;
        appends.retain_mut(|(entry, ticket)| match ticket.outcome() {
            None => true,
            Some(Err(AppendError::Full(_) | AppendError::Busy(_))) => {
                if left > 0
                    && let Ok(again) = log.append(entry)
                {
                    *ticket = again;
                    left -= 1;
                }
                true
            }
            // A log that takes nothing is opened again, and learns from other brokers what it lacks.
            Some(_) => {
                *bytes -= size(entry);
                false
            }
        });
    }

    /// Forgets all, since nothing is appended any more.
    pub(crate) fn clear(&self) {
        *lock(&self.0) = Waiting::default();
    }
}

impl Waiting {
    /// Forgets the first ones that are stored. Returns whether there is room then.
    fn has_room(&mut self) -> bool {
        let is_stored = |(_, ticket): &mut (Entry, Ticket)| matches!(ticket.outcome(), Some(Ok(_)));
        while let Some((stored, _)) = self.appends.pop_front_if(is_stored) {
            self.bytes -= size(&stored);
        }
        self.bytes < MOST_LATER
    }
}

/// The bytes that a message counts. Empty ones count, too.
fn size(entry: &Entry) -> usize {
    entry.message.encoded().len() + size_of::<(Entry, Ticket)>()
}
