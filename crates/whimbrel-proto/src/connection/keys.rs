//! Generations of packet keys, and when they change (RFC 9001 section 6).

use std::time::Duration;

use crate::crypto::{Keys, OpenKey};
use crate::mutants::{Mutant, planted};
use crate::{PathId, Time};

/// The keys in use: sealing with one generation, opening with it, the one before and the one after.
pub(super) struct KeyRing {
    current: Keys,
    previous: Option<(OpenKey, Time)>,
    phase: bool,
    /// Packets sealed with the current generation.
    sealed: u64,
    /// A packet of the current generation was acknowledged: both sides have it, so the next may begin.
    confirmed: bool,
    /// The first number sent with the current generation on the path, for `confirmed`.
    first_sent: u64,
    /// The lowest number received under the current generation: older ones are of the previous.
    first_received: u64,
    forgeries: u64,
    updates: u64,
}

/// How a packet was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opened {
    /// With keys in use.
    Plain(usize),
    /// With the next generation: the peer has begun it, and so have we.
    Rotated(usize),
}

impl Opened {
    pub(super) fn len(self) -> usize {
        match self {
            Self::Plain(len) | Self::Rotated(len) => len,
        }
    }
}

impl KeyRing {
    pub(super) fn new(keys: Keys) -> Self {
        Self {
            current: keys,
            previous: None,
            phase: false,
            sealed: 0,
            confirmed: false,
            first_sent: 0,
            first_received: 0,
            forgeries: 0,
            updates: 0,
        }
    }

    pub(super) fn phase(&self) -> bool {
        self.phase
    }

    pub(super) fn updates(&self) -> u64 {
        self.updates
    }

    /// Too many forgeries were tried for the keys to be trusted further (RFC 9001 section 6.6).
    pub(super) fn is_exhausted(&self) -> bool {
        self.forgeries >= self.current.aead().integrity_limit()
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.current
    }

    /// Opens in place the sealed part behind `head`.
    #[allow(clippy::too_many_arguments, reason = "what names a packet, its bytes, and the time")]
    pub(super) fn open(
        &mut self,
        now: Time,
        path: PathId,
        number: u64,
        phase: bool,
        head: &[u8],
        sealed: &mut [u8],
        keep_old: Duration,
    ) -> Option<Opened> {
        let opened = if phase == self.phase {
            self.current.open.open(path, number, head, sealed).map(Opened::Plain)
        } else if let Some((previous, _)) = self.previous.as_ref().filter(|_| number < self.first_received) {
            previous.open(path, number, head, sealed).map(Opened::Plain)
        } else if planted(Mutant::KeyPhaseNotFollowed) {
            None
        } else {
            self.current.next_open().open(path, number, head, sealed).map(Opened::Rotated)
        };
        match opened {
            None => self.forgeries += 1,
            Some(Opened::Rotated(_)) => {
                self.rotate(now + keep_old);
                self.first_received = number;
            }
            Some(Opened::Plain(_)) if phase == self.phase => {
                if self.first_received == u64::MAX
                    && let Some((_, until)) = &mut self.previous
                {
                    // Only now the peer is known to have the new keys; before, all it sends is under the old.
                    *until = now + keep_old;
                }
                self.first_received = self.first_received.min(number);
            }
            Some(Opened::Plain(_)) => {}
        }
        opened
    }

    /// Counts a packet about to be sealed as `number`, and begins the next generation if `limit` packets were sealed and the peer is
    /// known to have this one.
    pub(super) fn on_seal(&mut self, number: u64, limit: u64) {
        if self.sealed >= limit && self.confirmed {
            self.rotate(Time::MAX);
            // Nothing has been received under the new keys yet: all the peer has sent is older.
            self.first_received = u64::MAX;
        }
        if self.sealed == 0 {
            self.first_sent = number;
        }
        self.sealed += 1;
    }

    /// The AEAD's own limit is reached although the peer never confirmed the generation: nothing more may be sealed.
    pub(super) fn is_worn_out(&self) -> bool {
        self.sealed >= self.current.aead().confidentiality_limit()
    }

    pub(super) fn on_acked(&mut self, largest: u64) {
        if self.sealed > 0 && largest >= self.first_sent {
            self.confirmed = true;
        }
    }

    /// Drops the previous generation when its time is over.
    pub(super) fn expire(&mut self, now: Time) {
        if self.previous.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.previous = None;
        }
    }

    fn rotate(&mut self, keep_old_until: Time) {
        self.previous = Some((self.current.rotate(), keep_old_until));
        self.phase = !self.phase;
        self.sealed = 0;
        self.confirmed = false;
        self.updates += 1;
    }
}
