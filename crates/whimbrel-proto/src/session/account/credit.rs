//! Credit: sums of charges against absolute limits, on both sides.

#[path = "../snapshot/credit.rs"]
mod snapshot;

use super::pace::Pace;
use super::reserve::Reserve;
use crate::mutants::{Mutant, planted};
use crate::session::config::{DEFAULT_CREDIT, MESSAGE_CHARGE};
use crate::{Cause, PeerMisbehaved, Time};

/// The first window is renewed once this part of it was read: a stream that is read had better not wait for a round trip then.
const FIRST_PART: u64 = 32;
/// Later ones once this part was, while they grow: where the sender doubles its rate each round trip, half would be too late.
const PART: u64 = 4;
/// One that is large enough is renewed once this part was read: each limit told is a packet that wants an acknowledgement.
const STEADY_PART: u64 = 2;

/// What we may send: on one stream, or early on all of them together.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct SendCredit {
    used: u64,
    limit: u64,
}

impl SendCredit {
    pub(in crate::session) fn new(limit: u64) -> Self {
        Self { used: 0, limit }
    }

    /// A message may begin: it may overdraw, the next may not.
    #[inline]
    pub(in crate::session) fn is_open(&self) -> bool {
        self.admits(0)
    }

    /// A message may begin behind others that are charged this much.
    #[inline]
    pub(in crate::session) fn admits(&self, before: u64) -> bool {
        self.used + before < self.limit || planted(Mutant::CreditIgnored)
    }

    /// Bytes that fit without overdrawing.
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

    /// A new limit; says whether it opened.
    pub(in crate::session) fn raise(&mut self, limit: u64) -> bool {
        let was_open = self.is_open();
        self.limit = self.limit.max(limit);
        !was_open && self.is_open()
    }
}

/// What a stream's window is renewed by.
pub(in crate::session) struct Terms<'a> {
    /// The least the stream is assured of.
    pub(in crate::session) share: u64,
    /// The most its window grows to.
    pub(in crate::session) most: u64,
    pub(in crate::session) pace: Pace,
    pub(in crate::session) reserve: &'a mut Reserve,
}

/// What the peer may send on one stream.
///
/// The window is what the peer may have on its way and unread. It starts as the stream's share, and what it has beyond that is drawn from the
/// session's reserve. A limit once told is never lowered, so a window shrinks only as what was granted is read.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct RecvCredit {
    charged: u64,
    consumed: u64,
    granted: u64,
    window: u64,
    /// Once so much was read it is time to renew the window.
    mark: u64,
    /// Once so much came it is time to see who keeps it from being read.
    alarm: u64,
    /// When the window was last renewed. None: never.
    renewed: Option<Time>,
    /// An update waits to be sent or was sent and not lost.
    due: bool,
    /// The window is as large as it is wanted.
    steady: bool,
    /// All has come that will.
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

    /// `charge` was used; `overdraft` is by how much the last message begun may exceed the limit. Says whether half of the window came and was
    /// not read: it is time to see why.
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

    /// There is no more to be had for now: not before all of it was used up it is time to see again.
    pub(in crate::session) fn calm(&mut self) {
        self.alarm = self.granted;
    }

    pub(in crate::session) fn is_used_up(&self) -> bool {
        self.charged >= self.granted && !self.due && !self.over
    }

    pub(in crate::session) fn charged(&self) -> u64 {
        self.charged
    }

    /// Of what came, what was not read.
    pub(in crate::session) fn unread(&self) -> u64 {
        self.charged.saturating_sub(self.consumed)
    }

    pub(in crate::session) fn window(&self) -> u64 {
        self.window
    }

    /// Nothing of what came waits to be read.
    pub(in crate::session) fn is_read(&self) -> bool {
        self.consumed == self.charged
    }

    /// `amount` was read or will never be; says whether it is time to [renew](Self::renew) the window.
    #[inline]
    pub(in crate::session) fn consume(&mut self, amount: u64) -> bool {
        self.consumed += amount;
        self.consumed >= self.mark && !self.due
    }

    /// A part of the window was read: the next one. Says whether there is a new limit to tell.
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
        // There is nothing left to give back of a stream that is over and has its share only.
        self.due = raised || self.over && self.window == share;
        raised
    }

    /// When the window was last renewed. None: it never was.
    pub(in crate::session) fn renewed(&self) -> Option<Time> {
        self.renewed
    }

    /// The new limit, now being sent. None: nothing more comes.
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

    /// All has come that will: only what is unread needs credit now. Says whether that is news.
    pub(in crate::session) fn close(&mut self) -> bool {
        let news = !std::mem::replace(&mut self.over, true);
        if news {
            self.granted = self.charged;
            self.due = false;
            self.set_mark();
        }
        news
    }

    /// What it has of the session's reserve.
    pub(in crate::session) fn drawn(&self, share: u64) -> u64 {
        self.window.saturating_sub(share)
    }
}

/// What came in the whole session.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::session) struct Received {
    charged: u64,
    consumed: u64,
    /// Charged by blocks that came before the peer was proven.
    early: u64,
    is_early: bool,
}

impl Received {
    /// What is charged from now on came early, or did not.
    #[inline]
    pub(in crate::session) fn begin_block(&mut self, early: bool) {
        self.is_early = early;
    }

    #[inline]
    pub(in crate::session) fn charge(&mut self, charge: u64) -> Result<(), PeerMisbehaved> {
        self.charged = self.charged.saturating_add(charge);
        if self.is_early { self.charge_early(charge) } else { Ok(()) }
    }

    /// A message may begin early while all before it together are below the limit.
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

    /// What was read goes back unread.
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
