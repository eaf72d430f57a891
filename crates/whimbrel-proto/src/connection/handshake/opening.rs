//! The client's half of the handshake: SYN until it is answered, PING until it is answered. With a ticket, PING first; if SYN-ACK
//! answers it, another PING with the cookie. Of several addresses of the server the first that answers is taken.

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
/// Where a peer is dialled for longer, intervals grow to this share of the time it has been away for, up to [`SLOWEST`].
pub(in crate::connection) const PATIENCE: u32 = 240;
const SLOWEST: Duration = Duration::from_secs(5);
/// SYNs after which the next is as good as the first for telling the round trip: intervals are long by then.
const MANY: u8 = 6;
/// A path whose round trip is longer gets each PING of ours twice at first, a moment apart: all that follows is of no use to a server
/// that has not seen it.
const LONG_PATH: Duration = Duration::from_millis(20);
/// PING is repeated by then at the latest, or within a round trip where that is longer: everything waits for it.
const LONGEST_PING_WAIT: Duration = Duration::from_millis(250);
/// By how much an answer may be late on a host that is busy.
const LATE: Duration = Duration::from_millis(10);
/// PINGs without an answer that mean that the SYN-ACK was forged or damaged: it is asked for again. To the server that is another
/// connection, so no earlier.
const PINGS: u8 = 8;

/// What the client asks for and offers.
pub(crate) struct Opening {
    pub(in crate::connection) handshake: ClientHandshake,
    pub(in crate::connection) params: Params,
    pub(in crate::connection) trust_shown_key: bool,
    /// SYN, or PING with a ticket: what SYN-ACK answers.
    asking: Vec<u8>,
    /// PING with the cookie of the SYN-ACK taken last.
    ping: Vec<u8>,
    /// `asking` goes out beside the next PING.
    asking_due: bool,
    pub(in crate::connection) stage: Stage,
    pub(in crate::connection) alternatives: Option<Box<Alternatives>>,
    began: Time,
    /// Packets sent in this stage.
    tries: u8,
    /// Of the path, from an earlier connection.
    pub(in crate::connection) memory: Option<PathMemory>,
    /// Packet numbers used by flights that were given up.
    pub(in crate::connection) numbers_used: u64,
    pub(in crate::connection) first_sent: Option<Time>,
    pub(in crate::connection) early: Early,
    next: Time,
    /// A round trip, as far as is known.
    rtt: Option<Duration>,
    give_up: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Stage {
    /// `asking` is out: SYN-ACK answers it, or PONG if it is a PING.
    Asking,
    /// `ping` is out: PONG answers it.
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
            early: Early::default(),
            next: now,
            rtt: None,
            give_up: now + patience,
        }
    }

    /// The server may be at one of these just as well.
    pub(crate) fn or_at(mut self, alternatives: Vec<SocketAddr>) -> Self {
        self.alternatives = Alternatives::new(self.began, alternatives);
        self
    }

    /// Whom the client means to reach, as far as it knows.
    pub(in crate::connection) fn server_key(&self) -> Option<PublicKey> {
        self.handshake.server_key()
    }

    /// SYN or PING, if it is time to send it (again).
    pub(in crate::connection) fn poll_packet(&mut self, now: Time) -> Option<&[u8]> {
        if std::mem::take(&mut self.asking_due) {
            return Some(&self.asking);
        }
        if now < self.next {
            return None;
        }
        self.change_stage(now);
        if self.stage == Stage::Asking && self.tries >= MANY {
            // Long after the first, the answer is to one of the last.
            self.first_sent = None;
        }
        self.first_sent.get_or_insert(now);
        self.tries = self.tries.saturating_add(1);
        self.next = now + self.wait(now);
        match self.stage {
            Stage::Asking => Some(&self.asking),
            Stage::Pinging => {
                // Was the SYN-ACK forged, the ticket may count after all and only its PONG be lost.
                self.asking_due = self.asks_by_ticket() && self.tries > 1;
                Some(&self.ping)
            }
        }
    }

    /// After PINGs in vain another cookie is asked for, while another PING may be made.
    fn change_stage(&mut self, now: Time) {
        let committed = self.early.is_committed(now);
        match self.stage {
            Stage::Pinging if self.tries >= PINGS && !committed => {
                self.stage = Stage::Asking;
                self.rtt = None;
                self.first_sent = None;
                self.tries = 0;
            }
            Stage::Asking if committed && !self.ping.is_empty() => self.stage = Stage::Pinging,
            _ => {}
        }
    }

    /// From the packet that goes out now to its repetition.
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

    /// Somebody who is away for minutes is asked less and less often.
    fn longest_wait(&self, now: Time) -> Duration {
        (now.since(self.began) / PATIENCE).clamp(LONGEST_WAIT, SLOWEST)
    }

    /// No SYN-ACK has been taken, or none that led anywhere.
    pub(in crate::connection) fn is_asking(&self) -> bool {
        self.stage == Stage::Asking
    }

    pub(in crate::connection) fn asking(&self) -> &[u8] {
        &self.asking
    }

    /// What is due next is due now.
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

    /// A ticket is good for longer than any cookie, and so is the PING it went out with.
    fn given_up_at(&self) -> Time {
        let hopeless = self.early.hopeless_at().filter(|_| !self.asks_by_ticket());
        hopeless.map_or(self.give_up, |hopeless| hopeless.min(self.give_up))
    }

    /// An early packet carries messages.
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
