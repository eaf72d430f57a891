//! Datagrams to the peer, and the contexts that this end has announced.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::AbortHandle;

use super::codecs::Codecs;
use super::lanes::Lanes;
use crate::connector::{Link, Messages};
use crate::protocol::{Announcement, Compression, Context, Datagram, Manner, Refusal};
use crate::relay::bond::Bond;

/// How long a context that the peer refused is not tried again.
const REST: Duration = Duration::from_secs(5);
/// The silence after which a context may make room for another.
const QUIET: Duration = Duration::from_secs(30);

/// The part of all contexts that one program may have.
const SHARE: usize = 16;
/// The least time between two searches for contexts that were quiet: they take time, and a flood would cause them.
const PAUSE: Duration = Duration::from_secs(1);

/// Datagrams to the peer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    lanes: Arc<Lanes>,
    datagrams: Messages,
    announcements: Messages,
    most: usize,
    codecs: Arc<Codecs>,
    table: Mutex<NearContexts>,
}

#[derive(Debug, Default)]
struct NearContexts {
    next: u64,
    /// The contexts of each program.
    programs: HashMap<SocketAddr, BTreeSet<u64>>,
    contexts: HashMap<Arc<Announcement>, NearContext>,
    /// When quiet contexts were last searched for.
    searched: Option<Instant>,
    numbers: HashMap<u64, Arc<Announcement>>,
}

#[derive(Debug)]
struct NearContext {
    number: u64,
    state: Standing,
    /// Whether the peer takes its datagrams compressed, too.
    compresses: bool,
    used: Instant,
    /// The task that announces it. A peer that reads nothing and forgets contexts would gather such tasks, so each has one.
    announcing: Option<Announcing>,
}

/// A task that announces a context. It ends with this.
#[derive(Debug)]
struct Announcing(AbortHandle);

impl Drop for Announcing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Clone, Copy, Debug)]
enum Standing {
    /// It was never announced, or the peer has forgotten it.
    New,
    /// The announcement is on its way. Each datagram carries it, too.
    Announcing,
    Known,
    Refused(Instant),
}

impl Outgoing {
    pub(crate) fn new(link: Link, most: usize, codecs: Arc<Codecs>, bond: Arc<Bond>) -> Self {
        let datagrams = link.datagrams(Manner::default());
        let announcements = link.sure_messages();
        let lanes = Arc::new(Lanes::new(link, bond));
        Self { lanes, datagrams, announcements, most, codecs, table: Mutex::default() }
    }

    /// Returns the first number of a context that was never used.
    pub(crate) fn next(&self) -> u64 {
        self.lock().next
    }

    /// Uses no number of a context before this one. They were used in another process.
    pub(crate) fn begin_at(&self, next: u64) {
        self.lock().next = next;
    }

    /// Sends a datagram in this manner, unless the peer does not take it or too much is waiting. Returns the bytes that
    /// compression has saved.
    pub(crate) fn send(
        self: &Arc<Self>,
        announcement: &Announcement,
        manner: Manner,
        payload: Bytes,
    ) -> usize {
        let Some((context, state, compression)) = self.prepare(announcement) else { return 0 };
        let mut saved = 0;
        let message = match state {
            Standing::Known => match compression.and_then(|by| self.codecs.pack(by, &payload)) {
                Some(packed) => {
                    saved = payload.len() - packed.len();
                    Datagram::Plain(context.compressed(), packed)
                }
                None => Datagram::Plain(context, payload),
            },
            Standing::New | Standing::Announcing => {
                Datagram::Announced(context, announcement.clone(), payload)
            }
            Standing::Refused(_) => return 0,
        };
        self.lanes.send(manner, &message);
        if matches!(state, Standing::New) {
            self.announce(context, announcement.clone());
        }
        saved
    }

    /// Sends a message about datagrams. A full queue loses it.
    pub(crate) fn tell(&self, message: &Datagram) {
        self.datagrams.try_send(message.to_bytes());
    }

    /// Tells the peer something that must not be lost, since it is told once.
    pub(crate) fn tell_reliably(&self, message: &Datagram) {
        self.announcements.try_send(message.to_bytes());
    }

    /// Forgets the contexts of a program that is gone.
    pub(crate) fn forget(&self, program: SocketAddr) {
        let mut table = self.lock();
        for number in table.programs.remove(&program).unwrap_or_default() {
            if let Some(announcement) = table.numbers.remove(&number) {
                table.contexts.remove(&announcement);
            }
        }
    }

    pub(crate) fn on_refused(&self, context: Context, refusal: Refusal) {
        let state = match refusal {
            Refusal::Unknown => Standing::New,
            Refusal::Denied | Refusal::Limit | Refusal::Unusable => Standing::Refused(Instant::now()),
        };
        self.change(context, |entry| (entry.state, entry.compresses) = (state, false));
    }

    pub(crate) fn on_compresses(&self, context: Context) {
        self.change(context, |entry| entry.compresses = true);
    }

    /// Returns the context of an announcement, its state before this datagram, and how it may be compressed. `None`: there
    /// are too many.
    fn prepare(&self, announcement: &Announcement) -> Option<(Context, Standing, Option<Compression>)> {
        let compression = announcement.manner.compression;
        let (mut table, now) = (self.lock(), Instant::now());
        if let Some(entry) = table.contexts.get_mut(announcement) {
            entry.used = now;
            if matches!(entry.state, Standing::Refused(since) if now.duration_since(since) > REST) {
                entry.state = Standing::New;
            }
            let before = entry.state;
            if matches!(before, Standing::New) {
                entry.state = Standing::Announcing;
            }
            return Some((Context(entry.number), before, compression.filter(|_| entry.compresses)));
        }
        // One program, or who sends to it from many ports, takes no more than a share.
        let of_program = table.of_program(announcement.program);
        let is_full = table.contexts.len() >= self.most || of_program >= (self.most / SHARE).max(1);
        if is_full && !table.make_room(now, announcement.program, self.most) {
            return None;
        }
        let number = table.next;
        table.programs.entry(announcement.program).or_default().insert(number);
        // The next one is for compressed datagrams.
        table.next += if compression.is_some() { 2 } else { 1 };
        let shared = Arc::new(announcement.clone());
        table.numbers.insert(number, Arc::clone(&shared));
        let entry = NearContext {
            number,
            state: Standing::Announcing,
            compresses: false,
            used: now,
            announcing: None,
        };
        table.contexts.insert(shared, entry);
        Some((Context(number), Standing::New, None))
    }

    fn announce(self: &Arc<Self>, context: Context, announcement: Announcement) {
        let this = Arc::clone(self);
        let task = tokio::spawn(async move {
            let message = Datagram::Announcement(context, announcement).to_bytes();
            let state = match this.announcements.deliver(message).await {
                true => Standing::Known,
                false => Standing::New,
            };
            this.advance(context, state);
        });
        let announcing = Announcing(task.abort_handle());
        self.change(context, |entry| entry.announcing = Some(announcing));
    }

    /// Sets the state of a context whose announcement was on its way, unless the peer has refused it meanwhile.
    fn advance(&self, context: Context, state: Standing) {
        self.change(context, |entry| {
            if matches!(entry.state, Standing::Announcing) {
                entry.state = state;
            }
        });
    }

    fn change(&self, context: Context, change: impl FnOnce(&mut NearContext)) {
        let mut table = self.lock();
        let NearContexts { contexts, numbers, .. } = &mut *table;
        let of_number = |context: Context| numbers.get(&context.0);
        // The peer may name the number of the compressed ones.
        let of_compressed = || {
            let key = of_number(context.uncompressed()?)?;
            key.manner.compression.map(|_| key)
        };
        let key = of_number(context).or_else(of_compressed);
        if let Some(entry) = key.and_then(|key| contexts.get_mut(key)) {
            change(entry);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, NearContexts> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NearContexts {
    /// Forgets contexts that were quiet. Returns whether there is room for one more of this program.
    fn make_room(&mut self, now: Instant, program: SocketAddr, most: usize) -> bool {
        if self.searched.is_some_and(|last| now.duration_since(last) < PAUSE) {
            return false;
        }
        self.searched = Some(now);
        let Self { contexts, numbers, programs, .. } = self;
        contexts.retain(|announcement, entry| {
            if now.duration_since(entry.used) < QUIET {
                return true;
            }
            numbers.remove(&entry.number);
            if let Some(of_program) = programs.get_mut(&announcement.program) {
                of_program.remove(&entry.number);
                if of_program.is_empty() {
                    programs.remove(&announcement.program);
                }
            }
            false
        });
        self.contexts.len() < most && self.of_program(program) < (most / SHARE).max(1)
    }

    /// Returns the number of contexts of a program.
    fn of_program(&self, program: SocketAddr) -> usize {
        self.programs.get(&program).map_or(0, BTreeSet::len)
    }
}
