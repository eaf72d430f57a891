//! Generations of packet keys, and key updates (RFC 9001 section 6).

use crate::crypto::{Keys, OpenKey};
use crate::mutants::{Mutant, planted};
use crate::{PathId, Time};

/// The keys in use: packets are sealed with one generation, and opened with that, the previous or the next one.
pub(in crate::connection) struct KeyRing {
    current: Keys,
    /// Boxed, since it is rarely there and would cost room in every idle connection.
    previous: Option<Box<Previous>>,
    phase: bool,
    /// Packets sealed with the current generation.
    sealed: u64,
    forgeries: u64,
    updates: u64,
}

/// The previous generation, and until when it may still be needed.
struct Previous {
    open: OpenKey,
    until: Time,
}

/// One path's use of the current generation. Each path has its own packet numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct KeyUse {
    generation: u64,
    /// The first packet number sent under it.
    first_sent: Option<u64>,
    /// Whether a packet sent under it was acknowledged: both sides then have it.
    confirmed: bool,
    /// The lowest packet number received under it. Lower numbers belong to the previous generation.
    first_received: u64,
}

impl KeyUse {
    fn follow(&mut self, generation: u64) {
        if self.generation != generation {
            // Nothing was received on this path under the new generation yet: all that came is older.
            *self = Self { generation, first_received: u64::MAX, ..Self::default() };
        }
    }

    /// Returns whether this path permits a key update: a packet sent under `generation` arrived, or none was sent.
    pub(in crate::connection) fn lets_rotate(&self, generation: u64) -> bool {
        self.generation != generation || self.first_sent.is_none() || self.confirmed
    }

    pub(in crate::connection) fn on_acked(&mut self, generation: u64, largest: u64) {
        if self.generation == generation && self.first_sent.is_some_and(|first| largest >= first) {
            self.confirmed = true;
        }
    }

    /// Returns whether a packet sent under `generation` on this path arrived.
    pub(in crate::connection) fn is_confirmed(&self, generation: u64) -> bool {
        self.generation == generation && self.confirmed
    }
}

/// The result of opening a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct Opened {
    /// The number of bytes that were sealed.
    pub(in crate::connection) len: usize,
    /// Whether the packet shows that the peer has the newest generation. The caller must then say by
    /// [`KeyRing::keep_previous`] how long the previous one is still needed.
    pub(in crate::connection) supersedes: bool,
}

impl KeyRing {
    pub(in crate::connection) fn new(keys: Keys) -> Self {
        Self { current: keys, previous: None, phase: false, sealed: 0, forgeries: 0, updates: 0 }
    }

    pub(in crate::connection) fn phase(&self) -> bool {
        self.phase
    }

    pub(in crate::connection) fn updates(&self) -> u64 {
        self.updates
    }

    /// Returns whether too many forgeries were tried for the keys to be used further (RFC 9001 section 6.6).
    pub(in crate::connection) fn is_exhausted(&self) -> bool {
        self.forgeries >= self.current.aead().integrity_limit()
    }

    pub(in crate::connection) fn keys(&self) -> &Keys {
        &self.current
    }

    /// Opens the sealed part behind `head` in place.
    #[allow(clippy::too_many_arguments, reason = "what names a packet, and its bytes")]
    pub(in crate::connection) fn open(
        &mut self,
        used: &mut KeyUse,
        path: PathId,
        number: u64,
        phase: bool,
        head: &[u8],
        sealed: &mut [u8],
    ) -> Option<Opened> {
        used.follow(self.updates);
        let opened = if phase == self.phase {
            let len = self.current.open.open(path, number, head, sealed);
            if len.is_some() {
                used.first_received = used.first_received.min(number);
            }
            // Only now is the peer known to have the new keys. Until now, everything it sent was under the old ones.
            let supersedes = self.previous.as_ref().is_some_and(|previous| previous.until == Time::MAX);
            len.map(|len| Opened { len, supersedes })
        } else if let Some(previous) = self.previous.as_ref().filter(|_| number < used.first_received) {
            let len = previous.open.open(path, number, head, sealed);
            len.map(|len| Opened { len, supersedes: false })
        } else if planted(Mutant::KeyPhaseNotFollowed) {
            None
        } else {
            // The peer has begun the next generation, so this end begins it, too.
            let len = self.current.next_open().open(path, number, head, sealed);
            if len.is_some() {
                self.rotate(Time::MAX);
                used.follow(self.updates);
                used.first_received = number;
            }
            len.map(|len| Opened { len, supersedes: true })
        };
        self.forgeries += u64::from(opened.is_none());
        opened
    }

    /// Sets until when the previous generation is needed.
    pub(in crate::connection) fn keep_previous(&mut self, until: Time) {
        if let Some(previous) = &mut self.previous {
            previous.until = until;
        }
    }

    /// Returns whether `limit` packets were sealed under this generation.
    pub(in crate::connection) fn is_used_up(&self, limit: u64) -> bool {
        self.sealed >= limit
    }

    /// Begins the next generation. The peer must be known to have the current one.
    pub(in crate::connection) fn begin_next(&mut self) {
        self.rotate(Time::MAX);
    }

    /// Counts a packet that is about to be sealed as `number` of a path.
    pub(in crate::connection) fn on_seal(&mut self, used: &mut KeyUse, number: u64) {
        used.follow(self.updates);
        used.first_sent.get_or_insert(number);
        self.sealed += 1;
    }

    /// Returns whether the AEAD's own limit is reached although the peer never confirmed the generation. Nothing more
    /// may be sealed then.
    pub(in crate::connection) fn is_worn_out(&self) -> bool {
        self.sealed >= self.current.aead().confidentiality_limit()
    }

    /// Drops the previous generation once its time is over.
    pub(in crate::connection) fn expire(&mut self, now: Time) {
        if self.previous.as_ref().is_some_and(|previous| previous.until <= now) {
            self.previous = None;
        }
    }

    fn rotate(&mut self, keep_old_until: Time) {
        self.previous = Some(Box::new(Previous { open: self.current.rotate(), until: keep_old_until }));
        self.phase = !self.phase;
        self.sealed = 0;
        self.updates += 1;
    }
}
