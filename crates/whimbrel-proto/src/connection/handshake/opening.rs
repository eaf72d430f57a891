//! The state of the client's handshake. SYN is sent until SYN-ACK answers it, then PING until PONG answers it. With a
//! ticket, PING is sent first; if SYN-ACK answers it, another PING follows with the cookie. If the server has several
//! addresses, the first that answers is used.

use std::net::SocketAddr;
use std::time::Duration;

use super::alternatives::Alternatives;
use super::early::Early;
use crate::Time;
use crate::crypto::{PathMemory, PublicKey};
use crate::handshake::{ClientHandshake, Params};
use crate::wire::block;
use crate::wire::packet::CLEAR_BIT;

/// SYN is repeated 20, 50, 100, 200 ms … after the first.
const SYN_TIMES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(50)];
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// If a peer is dialled for long, the intervals grow to the time since dialling began divided by this, up to
/// [`SLOWEST`].
pub(in crate::connection) const PATIENCE: u32 = 240;
const SLOWEST: Duration = Duration::from_secs(5);
/// An answer is not expected to take longer than this. One that comes later answers a later SYN, and nobody knows which.
const LATEST_ANSWER: Duration = Duration::from_secs(2);
/// On a path with a longer round trip, each new PING is first sent twice, a moment apart. Everything that follows is of
/// no use to a server that has not seen it.
const LONG_PATH: Duration = Duration::from_millis(20);
/// The longest wait before PING is repeated, or about a round trip where that is longer: everything waits for PING.
const LONGEST_PING_WAIT: Duration = Duration::from_millis(250);
/// How late the answer of a busy host may be.
const LATE: Duration = Duration::from_millis(10);
/// The number of unanswered PINGs that means that the SYN-ACK was forged or damaged. Another SYN-ACK is then requested,
/// but no earlier: to the server the next PING begins another connection.
const PINGS: u8 = 8;

/// The client's handshake in progress: what it asks for and offers.
pub(crate) struct Opening {
    pub(in crate::connection) handshake: ClientHandshake,
    pub(in crate::connection) params: Params,
    pub(in crate::connection) trust_shown_key: bool,
    /// SYN, or PING with a ticket. SYN-ACK answers it.
    asking: Vec<u8>,
    /// PING with the cookie of the SYN-ACK that was accepted last.
    ping: Vec<u8>,
    /// Whether `asking` goes out right after the last PING, too.
    asking_due: bool,
    pub(in crate::connection) stage: Stage,
    pub(in crate::connection) alternatives: Option<Box<Alternatives>>,
    began: Time,
    /// Packets sent in this stage.
    tries: u8,
    /// The path's rate and round trip, if an earlier connection remembered them.
    pub(in crate::connection) memory: Option<PathMemory>,
    /// The first packet number that no abandoned flight has used.
    pub(in crate::connection) numbers_used: u64,
    /// When the first packet was sent that the next answer may belong to.
    pub(in crate::connection) first_sent: Option<Time>,
    /// Whether `first_sent` is only the earliest time at which that packet may have been sent.
    pub(in crate::connection) is_unsure: bool,
    pub(in crate::connection) early: Early,
    next: Time,
    /// The round trip, if it is known.
    rtt: Option<Duration>,
    give_up: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Stage {
    /// `asking` was sent. SYN-ACK answers it, or PONG if it is a PING.
    Asking,
    /// `ping` was sent. PONG answers it.
    Pinging,
}

impl Opening {
    pub(crate) fn new(
        now: Time,
        handshake: ClientHandshake,
        params: Params,
        trust_shown_key: bool,
        patience: Duration,
        memory: Option<PathMemory>,
    ) -> Self {
        Self {
            asking: handshake.syn(),
            ping: Vec::new(),
            asking_due: false,
            handshake,
            params,
            trust_shown_key,
            stage: Stage::Asking,
            alternatives: None,
            began: now,
            tries: 0,
            memory,
            numbers_used: 0,
            first_sent: None,
            is_unsure: false,
            early: Early::default(),
            next: now,
            rtt: None,
            give_up: now + patience,
        }
    }

    /// Adds further addresses at which the server may be.
    pub(crate) fn or_at(mut self, alternatives: Vec<SocketAddr>) -> Self {
        self.alternatives = Alternatives::new(self.began, alternatives);
        self
    }

    /// Returns the key of the server that the client means to reach, if it knows it.
    pub(in crate::connection) fn server_key(&self) -> Option<PublicKey> {
        self.handshake.server_key()
    }

    /// Returns SYN or PING if it is time to send it, for the first time or again.
    pub(in crate::connection) fn poll_packet(&mut self, now: Time) -> Option<&[u8]> {
        if std::mem::take(&mut self.asking_due) {
            return Some(&self.asking);
        }
        if now < self.next {
            return None;
        }
        self.change_stage(now);
        let first_sent = *self.first_sent.get_or_insert(now);
        if self.stage == Stage::Asking && now.since(first_sent) > LATEST_ANSWER {
            self.first_sent = Some(now.saturating_sub(LATEST_ANSWER));
            self.is_unsure = true;
        }
        self.tries = self.tries.saturating_add(1);
        self.next = now + self.wait(now);
        match self.stage {
            Stage::Asking => Some(&self.asking),
            Stage::Pinging => {
                // If the SYN-ACK was forged, the ticket may be valid after all, and only the PONG to it lost.
                self.asking_due = self.asks_by_ticket() && self.tries > 1;
                Some(&self.ping)
            }
        }
    }

    /// Goes back to asking after too many unanswered PINGs, or to PING once no other PING may be made.
    fn change_stage(&mut self, now: Time) {
        let committed = self.early.is_committed(now);
        match self.stage {
            Stage::Pinging if self.tries >= PINGS && !committed => {
                self.stage = Stage::Asking;
                self.rtt = None;
                (self.first_sent, self.is_unsure) = (None, false);
                self.tries = 0;
            }
            Stage::Asking if committed && !self.ping.is_empty() => self.stage = Stage::Pinging,
            _ => {}
        }
    }

    /// Returns the wait from the packet sent now to its repetition.
    fn wait(&self, now: Time) -> Duration {
        let tries = u32::from(self.tries.saturating_sub(1));
        match self.rtt {
            None => match tries {
                0 => SYN_TIMES[0],
                1 => SYN_TIMES[1] - SYN_TIMES[0],
                _ => (SYN_TIMES[1] * (1 << (tries - 2).min(8))).min(self.longest_wait(now)),
            },
            Some(rtt) => {
                let late = rtt + rtt / 8 + LATE;
                let twice = rtt >= LONG_PATH;
                match tries {
                    0 if twice => rtt / 16,
                    1 if twice => late - rtt / 16,
                    _ => {
                        let growth = tries.saturating_sub(if twice { 2 } else { 0 }).min(8);
                        (late * 3u32.pow(growth) / 2u32.pow(growth)).min(LONGEST_PING_WAIT.max(late))
                    }
                }
            }
        }
    }

    /// Returns the longest wait between packets that ask. It grows, so that a peer that is away for minutes is asked
    /// less and less often.
    fn longest_wait(&self, now: Time) -> Duration {
        (now.since(self.began) / PATIENCE).clamp(LONGEST_WAIT, SLOWEST)
    }

    /// Returns whether no SYN-ACK has been accepted, or none that led anywhere.
    pub(in crate::connection) fn is_asking(&self) -> bool {
        self.stage == Stage::Asking
    }

    pub(in crate::connection) fn asking(&self) -> &[u8] {
        &self.asking
    }

    /// Makes the next packet due at `now` at the latest.
    pub(in crate::connection) fn hurry(&mut self, now: Time) {
        self.next = self.next.min(now);
    }

    fn asks_by_ticket(&self) -> bool {
        self.asking.first() == Some(&(CLEAR_BIT | block::PING))
    }

    pub(in crate::connection) fn timeout(&self) -> Time {
        let asked = self.alternatives.as_deref().filter(|_| self.is_asking());
        let alternatives = asked.map_or(Time::MAX, Alternatives::timeout);
        if self.asking_due { Time::ZERO } else { self.next.min(self.given_up_at()).min(alternatives) }
    }

    pub(in crate::connection) fn is_given_up(&self, now: Time) -> bool {
        now >= self.given_up_at()
    }

    /// Returns when the handshake is given up. A ticket is valid for longer than any cookie, and so is a PING made with
    /// one.
    fn given_up_at(&self) -> Time {
        let hopeless = self.early.hopeless_at().filter(|_| !self.asks_by_ticket());
        hopeless.map_or(self.give_up, |hopeless| hopeless.min(self.give_up))
    }

    /// Records that an early packet carries messages.
    pub(in crate::connection) fn on_said_early(&mut self) {
        self.early.on_said();
    }

    pub(in crate::connection) fn begin_ping(
        &mut self,
        now: Time,
        by_ticket: bool,
        packet: Vec<u8>,
        rtt: Duration,
    ) {
        if by_ticket {
            self.asking = packet;
        } else {
            self.stage = Stage::Pinging;
            self.ping = packet;
        }
        self.tries = 0;
        self.asking_due = false;
        self.next = now;
        self.rtt = Some(rtt);
    }
}
