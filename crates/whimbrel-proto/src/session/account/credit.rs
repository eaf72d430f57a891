//! Flow control credit: sums of charges against absolute limits, in both directions.

#[path = "../snapshot/credit.rs"]
mod snapshot;

use super::pace::Pace;
use super::reserve::Reserve;
use crate::mutants::{Mutant, planted};
use crate::session::config::{DEFAULT_CREDIT, MESSAGE_CHARGE};
use crate::{Cause, PeerMisbehaved, Time};

/// The first window is renewed once 1/32 of it was read. A stream that is read should not wait a round trip that early.
const FIRST_PART: u64 = 32;
/// A growing window is renewed once a quarter of it was read. If the sender doubles its rate each round trip, half
/// would be too late.
const PART: u64 = 4;
/// A window that is large enough is renewed once half of it was read. Each limit sent is a packet that needs an
/// acknowledgement.
const STEADY_PART: u64 = 2;

/// Credit for sending: on one stream, or early in the session on all of them together.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct SendCredit {
    used: u64,
    limit: u64,
}

impl SendCredit {
    pub(in crate::session) fn new(limit: u64) -> Self {
        Self { used: 0, limit }
    }

    /// Returns whether a message may begin. It may overdraw the credit; the next one may not.
    #[inline]
    pub(in crate::session) fn is_open(&self) -> bool {
        self.admits(0)
    }

    /// Returns whether a message may begin behind others with this total charge.
    #[inline]
    pub(in crate::session) fn admits(&self, before: u64) -> bool {
        self.used + before < self.limit || planted(Mutant::CreditIgnored)
    }

    /// Returns the bytes that fit without overdrawing.
    #[inline]
    pub(in crate::session) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    #[inline]
    pub(in crate::session) fn charge(&mut self, charge: u64) {
        self.used += charge;
    }

    pub(in crate::session) fn used(&self) -> u64 {
        self.used
    }

    /// Raises the limit. Returns whether that opened a window that was closed.
    pub(in crate::session) fn raise(&mut self, limit: u64) -> bool {
        let was_open = self.is_open();
        self.limit = self.limit.max(limit);
        !was_open && self.is_open()
    }
}

/// The terms on which a stream's window is renewed.
pub(in crate::session) struct Terms<'a> {
    /// The minimum the stream is assured of.
    pub(in crate::session) share: u64,
    /// The maximum its window grows to.
    pub(in crate::session) most: u64,
    pub(in crate::session) pace: Pace,
    pub(in crate::session) reserve: &'a mut Reserve,
}

/// Credit the peer has on one stream.
///
/// The window is what the peer may have in flight and unread. It starts as the stream's share, and anything beyond that
/// is drawn from the session's reserve. A limit once sent is never lowered, so a window shrinks only as data that was
/// granted is read.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct RecvCredit {
    charged: u64,
    consumed: u64,
    granted: u64,
    window: u64,
    /// The window is renewed once this much was read.
    mark: u64,
    /// Once this much has arrived, it is checked whether the reader holds the stream up.
    alarm: u64,
    /// When the window was last renewed. None: never.
    renewed: Option<Time>,
    /// Whether an update waits to be sent. Also set once nothing is left to give back, so that the window is not
    /// renewed again.
    due: bool,
    /// Whether the window is as large as it needs to be.
    steady: bool,
    /// Whether everything the peer will send has arrived.
    over: bool,
}

impl RecvCredit {
    pub(in crate::session) fn new(share: u64) -> Self {
        Self {
            charged: 0,
            consumed: 0,
            granted: share,
            window: share,
            mark: share / FIRST_PART,
            alarm: share / 2,
            renewed: None,
            due: false,
            steady: false,
            over: false,
        }
    }

    /// Charges `charge`. `overdraft` is how far the last message begun may exceed the limit. Returns whether half of
    /// the window has arrived unread, so that the reason should be checked.
    #[inline]
    pub(in crate::session) fn charge(&mut self, charge: u64, overdraft: u64) -> Result<bool, PeerMisbehaved> {
        self.charged = self.charged.saturating_add(charge);
        if self.charged < self.alarm {
            return Ok(false);
        }
        if self.charged > self.granted.saturating_add(overdraft) {
            return Err(PeerMisbehaved::new(Cause::Credit, "more data than was granted"));
        }
        Ok(!self.due && !self.over)
    }

    /// Postpones the next check until all granted credit is used up, when no more can be granted for now.
    pub(in crate::session) fn calm(&mut self) {
        self.alarm = self.granted;
    }

    pub(in crate::session) fn is_used_up(&self) -> bool {
        self.charged >= self.granted && !self.due && !self.over
    }

    pub(in crate::session) fn charged(&self) -> u64 {
        self.charged
    }

    /// Returns what has arrived and not been read.
    pub(in crate::session) fn unread(&self) -> u64 {
        self.charged.saturating_sub(self.consumed)
    }

    pub(in crate::session) fn window(&self) -> u64 {
        self.window
    }

    /// Returns whether everything that arrived has been read.
    pub(in crate::session) fn is_read(&self) -> bool {
        self.consumed == self.charged
    }

    /// Counts `amount` as read, or as never to be read. Returns whether it is time to [renew](Self::renew) the window.
    #[inline]
    pub(in crate::session) fn consume(&mut self, amount: u64) -> bool {
        self.consumed += amount;
        self.consumed >= self.mark && !self.due
    }

    /// Sizes the next window after a part of this one was read. Returns whether there is a new limit to send.
    pub(in crate::session) fn renew(&mut self, now: Time, terms: Terms<'_>) -> bool {
        let Terms { share, most, pace, reserve } = terms;
        let read = (self.consumed + self.window).saturating_sub(self.granted);
        let wanted = match pace {
            _ if self.over => share,
            Pace::Faster(times) => self.window.max(read).saturating_mul(times),
            Pace::Same => self.window,
            Pace::Slower => self.window / 2,
        };
        let promised = self.granted.saturating_sub(self.consumed);
        let beyond = |window: u64| window.saturating_sub(share);
        let wanted = wanted.clamp(share, most.max(share));
        self.window = share + reserve.change(beyond(self.window), beyond(wanted), beyond(promised));
        self.renewed = Some(now);
        self.steady = !matches!(pace, Pace::Faster(_));
        self.set_mark();
        let raised = !self.over && self.consumed + self.window > self.granted;
        // A stream that is over and has only its share has nothing left to give back.
        self.due = raised || self.over && self.window == share;
        raised
    }

    /// Returns when the window was last renewed. None: never.
    pub(in crate::session) fn renewed(&self) -> Option<Time> {
        self.renewed
    }

    /// Returns the new limit, which is about to be sent. None: everything has arrived already.
    pub(in crate::session) fn grant(&mut self) -> Option<u64> {
        if self.over {
            return None;
        }
        self.due = false;
        self.granted = self.granted.max(self.consumed + self.window);
        self.set_mark();
        Some(self.granted)
    }

    fn set_mark(&mut self) {
        let part = if self.steady { STEADY_PART } else { PART };
        self.mark = self.granted.saturating_sub(self.window - self.window / part);
        self.alarm = self.granted.saturating_sub(self.window / 2);
    }

    /// Notes that everything has arrived, so only unread data still needs credit. Returns whether that is new.
    pub(in crate::session) fn close(&mut self) -> bool {
        let news = !std::mem::replace(&mut self.over, true);
        if news {
            self.granted = self.charged;
            self.due = false;
            self.set_mark();
        }
        news
    }

    /// Returns what the stream has drawn from the session's reserve.
    pub(in crate::session) fn drawn(&self, share: u64) -> u64 {
        self.window.saturating_sub(share)
    }
}

/// Charges of everything received in the session.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::session) struct ReceivedCredit {
    charged: u64,
    consumed: u64,
    /// Charges of blocks that arrived before the peer was proven.
    early: u64,
    is_early: bool,
}

impl ReceivedCredit {
    /// Sets whether what is charged from now on arrived early.
    #[inline]
    pub(in crate::session) fn begin_block(&mut self, early: bool) {
        self.is_early = early;
    }

    #[inline]
    pub(in crate::session) fn charge(&mut self, charge: u64) -> Result<(), PeerMisbehaved> {
        self.charged = self.charged.saturating_add(charge);
        if self.is_early { self.charge_early(charge) } else { Ok(()) }
    }

    /// Charges early data. A message may begin early while the sum of all before it is below the limit.
    fn charge_early(&mut self, charge: u64) -> Result<(), PeerMisbehaved> {
        self.early = self.early.saturating_add(charge);
        if self.early > DEFAULT_CREDIT + DEFAULT_CREDIT + MESSAGE_CHARGE {
            return Err(PeerMisbehaved::new(Cause::Credit, "more early data than is taken"));
        }
        Ok(())
    }

    #[inline]
    pub(in crate::session) fn consume(&mut self, amount: u64) {
        self.consumed += amount;
    }

    /// Counts data that was read as unread again.
    pub(in crate::session) fn take_back(&mut self, amount: u64) {
        self.consumed = self.consumed.saturating_sub(amount);
    }

    pub(in crate::session) fn charged(&self) -> u64 {
        self.charged
    }

    pub(in crate::session) fn unread(&self) -> u64 {
        self.charged.saturating_sub(self.consumed)
    }
}
