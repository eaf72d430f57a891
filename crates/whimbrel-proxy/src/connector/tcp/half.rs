//! The two directions of a stream over TCP.

use std::task::Waker;

use bytes::{Bytes, BytesMut};

use super::frame::Violation;
use crate::connector::failure::Failure;

/// The bytes that each stream may have sent ahead of its reader, whatever others have.
pub(super) const SHARE: usize = 64 * 1024;
/// The most that it may have.
pub(super) const WINDOW: usize = 1 << 20;

/// The direction from the peer.
#[derive(Debug)]
pub(super) struct IncomingHalf {
    bytes: BytesMut,
    /// Its end: with a code if early.
    end: Option<Option<u64>>,
    /// All bytes that have come, and all that may.
    arrived: u64,
    granted: u64,
    window: usize,
    /// Nobody reads any more.
    is_stopped: bool,
    /// The waker of the task that waits for bytes.
    pub(super) reader: Option<Waker>,
    /// Whether somebody holds this direction.
    pub(super) is_held: bool,
}

impl Default for IncomingHalf {
    fn default() -> Self {
        Self {
            bytes: BytesMut::new(),
            end: None,
            arrived: 0,
            granted: SHARE as u64,
            window: SHARE,
            is_stopped: false,
            reader: None,
            is_held: true,
        }
    }
}

impl IncomingHalf {
    pub(super) fn on_data(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        if self.end.is_some() {
            return Err(Violation("bytes after the end of a stream"));
        }
        self.arrived += bytes.len() as u64;
        if self.arrived > self.granted {
            return Err(Violation("more bytes than a stream has credit for"));
        }
        if !self.is_stopped {
            self.bytes.extend_from_slice(bytes);
            self.wake();
        }
        Ok(())
    }

    /// The peer has ended the direction. What was not read is gone if that was early.
    pub(super) fn on_end(&mut self, code: Option<u64>) -> Result<(), Violation> {
        if self.end.is_some() {
            return Err(Violation("a stream ends twice"));
        }
        self.end = Some(code);
        if code.is_some() {
            self.bytes = BytesMut::new();
        }
        self.wake();
        Ok(())
    }

    /// Takes the next bytes, at most so many. `None`: they have not come yet. None at all: the end.
    pub(super) fn take(&mut self, most: usize) -> Option<Result<Bytes, Failure>> {
        if self.is_stopped {
            return Some(Err(Failure::Ended));
        }
        if !self.bytes.is_empty() {
            let length = most.clamp(1, self.bytes.len());
            return Some(Ok(self.bytes.split_to(length).freeze()));
        }
        match self.end? {
            None => Some(Ok(Bytes::new())),
            Some(code) => Some(Err(Failure::Reset(code))),
        }
    }

    /// Returns the further bytes that the peer may send, if it is worth a frame. The window may grow from `pool`.
    pub(super) fn grant(&mut self, pool: &mut usize) -> Option<u64> {
        if self.end.is_some() || self.is_stopped {
            return None;
        }
        let ahead = (self.granted - self.arrived) as usize + self.bytes.len();
        if ahead > self.window / 2 {
            return None;
        }
        // Who reads this much could read more.
        let more = (WINDOW - self.window).min(*pool / 2);
        *pool -= more;
        self.window += more;
        let credit = (self.window - ahead) as u64;
        self.granted += credit;
        Some(credit)
    }

    /// Nobody reads any more. Returns whether the peer has to be told.
    pub(super) fn stop(&mut self) -> bool {
        let is_news = self.end.is_none() && !self.is_stopped;
        self.is_stopped = true;
        self.bytes = BytesMut::new();
        is_news
    }

    /// The bytes it has taken from the pool.
    pub(super) fn share_of_pool(&self) -> usize {
        self.window - SHARE
    }

    pub(super) fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The direction to the peer.
#[derive(Debug)]
pub(super) struct OutgoingHalf {
    pub(super) credit: u64,
    is_ended: bool,
    stopped: Option<u64>,
    /// Whether it is among those that wait for room.
    pub(super) waits: bool,
    /// The waker of the task that waits to write.
    pub(super) writer: Option<Waker>,
    /// The waker of the task that waits for the peer to read no more.
    pub(super) watcher: Option<Waker>,
    /// Whether somebody holds this direction.
    pub(super) is_held: bool,
}

impl Default for OutgoingHalf {
    fn default() -> Self {
        Self {
            credit: SHARE as u64,
            is_ended: false,
            stopped: None,
            waits: false,
            writer: None,
            watcher: None,
            is_held: true,
        }
    }
}

impl OutgoingHalf {
    pub(super) fn on_stop(&mut self, code: u64) {
        self.stopped.get_or_insert(code);
        self.wake();
    }

    pub(super) fn on_credit(&mut self, credit: u64) {
        self.credit = self.credit.saturating_add(credit);
        self.wake();
    }

    /// Returns the code with which the peer has stopped reading.
    pub(super) fn stopped(&self) -> Option<u64> {
        self.stopped
    }

    /// Returns whether it can be written.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.stopped {
            _ if self.is_ended => Err(Failure::Ended),
            Some(code) => Err(Failure::Stopped(code)),
            None => Ok(()),
        }
    }

    /// Nothing more is written. Returns whether the peer has to be told.
    pub(super) fn end(&mut self) -> bool {
        !std::mem::replace(&mut self.is_ended, true)
    }

    pub(super) fn wake(&mut self) {
        for waker in [self.writer.take(), self.watcher.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}
