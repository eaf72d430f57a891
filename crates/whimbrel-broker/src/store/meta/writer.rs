//! The thread that writes what may be written late.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::WriteTransaction;
use tokio::sync::watch;
use whimbrel_pubsub::message::ChannelId;

use super::super::error::StoreError;
use super::super::format::Entry;
use super::base::Base;
use super::error::MetaError;
use super::session::FoundSession;
use super::state::State;
use super::tables;
use super::written::{Round, Written};
use crate::locking::lock;

/// The database and its thread. Dropping it writes what waits.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// Locks are taken in the order of the fields.
#[derive(Debug)]
struct Shared {
    /// Held by whoever looks at the state and then changes it.
    changing: Mutex<()>,
    /// Held while the state and the database are made alike.
    base: Mutex<Base>,
    state: Mutex<State>,
    wish: Mutex<Wish>,
    wake: Condvar,
    trouble: Mutex<Option<MetaError>>,
    /// Tells the outcome of each round in which the thread writes.
    rounds: watch::Sender<Round>,
    every: Duration,
}

#[derive(Debug, Default)]
struct Wish {
    is_write: bool,
    /// Whether somebody waits for it.
    is_soon: bool,
    is_end: bool,
    /// The number of the round that was begun last.
    round: u64,
}

impl Writer {
    pub(super) fn start(base: Base, state: State, every: Duration) -> Result<Self, MetaError> {
        let shared = Arc::new(Shared {
            changing: Mutex::default(),
            base: Mutex::new(base),
            state: Mutex::new(state),
            wish: Mutex::default(),
            wake: Condvar::new(),
            trouble: Mutex::default(),
            rounds: watch::Sender::default(),
            every,
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("meta".to_owned())
            .spawn(move || of_thread.run())
            .map_err(|error| StoreError::io("meta".as_ref(), error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// Keeps others from changing what is being looked at.
    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        lock(&self.shared.changing)
    }

    /// Writes, and then does the same to the state.
    pub(super) fn write_now(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
        apply: impl FnOnce(&mut State),
    ) -> Result<(), MetaError> {
        let mut base = lock(&self.shared.base);
        base.write(change)?;
        apply(&mut lock(&self.shared.state));
        Ok(())
    }

    /// Has the thread write soon.
    pub(super) fn write_later(&self) {
        let mut wish = lock(&self.shared.wish);
        if !wish.is_write {
            wish.is_write = true;
            self.shared.wake.notify_one();
        }
    }

    /// Has the thread write at once what was changed before. All who wait meanwhile are in the next round.
    pub(super) fn write_soon(&self) -> Written {
        let mut wish = lock(&self.shared.wish);
        (wish.is_write, wish.is_soon) = (true, true);
        self.shared.wake.notify_one();
        Written::new(wish.round + 1, self.shared.rounds.subscribe())
    }

    pub(super) fn flush(&self) -> Result<(), MetaError> {
        self.shared.flush()
    }

    pub(super) fn sessions(&self) -> Result<Vec<FoundSession>, MetaError> {
        lock(&self.shared.base).sessions()
    }

    pub(super) fn session(&self, name: &[u8]) -> Result<Option<FoundSession>, MetaError> {
        lock(&self.shared.base).session(name)
    }

    pub(super) fn retained(&self, channel: ChannelId) -> Result<Vec<Entry>, MetaError> {
        lock(&self.shared.base).retained(channel)
    }

    pub(super) fn trouble(&self) -> Option<MetaError> {
        lock(&self.shared.trouble).clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.shared.wish).is_end = true;
        self.shared.wake.notify_one();
        // A thread that panicked has nothing to hand over.
        self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let (round, is_end) = self.wait();
            // `trouble` tells an error, and what could not be written waits on.
            let outcome = self.flush().err();
            let failed = outcome.is_some();
            self.rounds.send_replace(Round { number: round, outcome });
            if is_end {
                return;
            }
            if failed {
                lock(&self.wish).is_write = true;
            }
        }
    }

    /// Waits for something to write, and then for the time in which more may come, unless somebody waits. Begins a round. Returns its
    /// number, and whether the end has come.
    fn wait(&self) -> (u64, bool) {
        let mut wish = lock(&self.wish);
        while !wish.is_write && !wish.is_end {
            wish = self.wake.wait(wish).unwrap_or_else(PoisonError::into_inner);
        }
        let at = Instant::now() + self.every;
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if wish.is_end || wish.is_soon || left.is_zero() {
                (wish.is_write, wish.is_soon) = (false, false);
                wish.round += 1;
                return (wish.round, wish.is_end);
            }
            wish = match self.wake.wait_timeout(wish, left) {
                Ok((wish, _)) => wish,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn flush(&self) -> Result<(), MetaError> {
        let mut base = lock(&self.base);
        let mut done = Ok(());
        loop {
            // Nobody waits for the disk to look at the state.
            let taken = lock(&self.state).take_changes();
            let Some(changes) = taken else { break };
            if let Err(error) = base.write(|transaction| tables::put_changes(transaction, &changes)) {
                lock(&self.state).put_back(changes);
                done = Err(error);
                break;
            }
        }
        *lock(&self.trouble) = done.as_ref().err().cloned();
        done
    }
}
