//! One connection: keys and paths that carry one session now.
//!
//! The coordinator routes and owns; it does not compute. `receive` takes packets apart, `transmit` puts them together,
//! `opening` is the client's half of the handshake, `close` the end; each path has its own recovery.

mod addresses;
mod alternatives;
mod attempts;
mod changeover;
mod close;
mod control;
mod copies;
mod cost;
mod coupling;
mod early;
mod events;
mod former;
mod ids;
mod key_log;
mod keys;
mod mtu;
mod multipath;
mod notices;
mod opening;
mod pairing;
mod path;
mod path_quota;
mod path_state;
mod paths;
mod primary;
#[cfg(test)]
mod printed;
mod quality;
mod reattach;
mod receive;
mod resume;
mod revoked;
mod sacks;
mod scheduler;
mod stats;
mod suspend;
mod suspended;
mod tickets;
mod timeout;
mod transmit;
mod validation;
#[cfg(test)]
mod vectors;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand_chacha::ChaCha20Rng;

use addresses::Addresses;
pub use addresses::LocalAddress;
use attempts::Attempts;
use changeover::Changeover;
pub use close::CloseReason;
use close::Ending;
pub(crate) use control::ControlBlock;
use control::ControlQueue;
pub use copies::DeadlineStats;
pub use cost::CostPolicy;
use coupling::Coupling;
use events::Events;
use ids::SpareIds;
use key_log::KeyLog;
use keys::KeyRing;
pub use multipath::OpenPathError;
use multipath::Retired;
pub(crate) use opening::Opening;
use path::{Ends, Path};
use path_quota::PathQuota;
use path_state::PathLifecycle;
pub use path_state::PathState;
use paths::{At, Main, Paths};
use primary::Choice;
pub use primary::{PrimaryRule, SetPrimaryError};
use quality::Watch;
pub use quality::{MAX_THRESHOLDS, Quality, QualityChange, Threshold, TooManyThresholds};
pub use reattach::Dial;
use reattach::Redial;
pub use resume::Resuming;
pub use scheduler::Scheduling;
pub use stats::{ConnectionStats, PathStats, Totals};
pub(crate) use suspend::Attachment;
pub use suspend::{SuspendError, SuspendMode};
pub use suspended::{SUSPENDED_VERSION, Suspended};
pub use tickets::IssuedTicket;
use tickets::Ticketing;
use validation::{Challenges, Validation};

use crate::budget::Budgets;
use crate::config::TransportConfig;
use crate::crypto::{EarlyOpen, EarlySeal, PathMemory, PublicKey, ResetToken};
use crate::mutants::{Mutant, planted};
use crate::recovery::{Ecn, Fate};
use crate::session::{Carried, Session};
use crate::wire::close::Reason;
use crate::wire::sack::Sack;
use crate::{Cause, ConnectionId, PathId, Side, StreamId, Ticket, Time};

/// What a packet carried, to be told its fate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SentBlock {
    Session(Carried),
    ControlBlock(ControlBlock),
    /// A SACK that reported up to this number: once seen, what is below need not be repeated.
    Sack(u64),
    /// One of another path.
    SackOf(PathId, u64),
    MtuProbe(u16),
    /// The answer to a challenge.
    Answer,
}

/// A datagram that came in.
#[derive(Debug)]
pub struct Datagram {
    /// From where.
    pub from: SocketAddr,
    /// To which of our addresses, if the system says.
    pub to: Option<IpAddr>,
    /// Its ECN mark.
    pub ecn: Option<Ecn>,
    /// UDP payload; decrypted in place.
    pub bytes: BytesMut,
}

/// A datagram, or several of one size, to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To where.
    pub destination: SocketAddr,
    /// From which of our addresses.
    pub source: Option<IpAddr>,
    /// ECN mark to set.
    pub ecn: Option<Ecn>,
    /// Bytes appended to the buffer.
    pub size: usize,
    /// The size of each datagram but the last, which may be shorter. None: one datagram.
    pub segment_size: Option<usize>,
}

/// What the application hears of a connection. `Closed` is always last.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done: the peer is who it says.
    Connected,
    /// Three probes went unanswered.
    PeerUnreachable,
    /// The peer answered again.
    PeerReachable,
    /// The peer's packets come from another address now, and it answered a challenge there.
    PeerAddressChanged {
        /// The path it happened on.
        path: PathId,
        /// Where it was.
        from: SocketAddr,
        /// Where it is.
        to: SocketAddr,
    },
    /// The server gave a ticket, or closing told more of the path one is for: the next connection may begin with it. The newest
    /// counts.
    Ticket(Ticket),
    /// A path works: it is new, or answered again.
    PathUp(PathId),
    /// What was sent on a path is overdue: it goes another way.
    PathSuspect(PathId),
    /// Three probes of a path went unanswered.
    PathDown(PathId),
    /// A path is no more; its last figures. Nothing more is said of it.
    PathClosed(Box<PathStats>),
    /// Data goes on this path first from now on.
    PrimaryChanged(PathId),
    /// A path works that costs something, and carries data only once [`Connection::allow_path`] says so.
    PathCostAsked {
        /// Which.
        path: PathId,
        /// What it costs.
        cost: u32,
    },
    /// No path works: messages wait, and every path is probed.
    AllPathsDown,
    /// No path has worked for so long that the connection is given up; `Detached` follows if the session outlives it, else `Closed`.
    OutOfService,
    /// The session is kept without a connection: messages wait, lifetimes run, and the side that connected dials.
    Detached,
    /// The session goes on, over another connection or because this one works again; `Detached` came before it.
    Reattached {
        /// Where the peer was.
        from: SocketAddr,
        /// Where it is.
        to: SocketAddr,
    },
    /// This host has another address.
    LocalAddressAdded(SocketAddr),
    /// This host has one address less.
    LocalAddressRemoved(SocketAddr),
    /// The peer says it has another address.
    PeerAddressAdded(SocketAddr),
    /// The peer says it has one address less.
    PeerAddressRemoved(SocketAddr),
    /// The largest packet of a path changed: messages up to this many bytes travel unfragmented.
    MaxUnfragmented(usize),
    /// A figure crossed a threshold that was set.
    Quality(QualityChange),
    /// The peer has used up a stream's credit, and nobody has read it for a second: it can send no more there. Said once each time. As
    /// [`crate::session::SessionEvent::ReaderStalled`], which the session says.
    ReaderStalled {
        /// Which.
        stream: StreamId,
        /// Bytes that wait to be read, and 32 for each message.
        unread: u64,
    },
    /// What is queued on a stream has waited for a second because the peer's application does not read it. Said once each time. As
    /// [`crate::session::SessionEvent::SendBlocked`], which the session says.
    SendBlocked(StreamId),
    /// The peer began a polite close: what it sent before is still delivered.
    PeerClosing(Reason),
    /// The peer suspended its end: messages wait until it comes back.
    PeerSuspended,
    /// The peer's end goes on, perhaps in another process or on another host.
    PeerResumed {
        /// Where it was.
        from: SocketAddr,
        /// Where it is.
        to: SocketAddr,
    },
    /// Over.
    Closed(CloseReason),
}

/// What the endpoint needs to know to find the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointEvent {
    /// The client has proven itself by a packet from there.
    Proven {
        /// Where its path leads.
        from: SocketAddr,
    },
    /// Packets that end in this token mean the peer has lost the connection.
    PeerResetToken(ResetToken),
    /// The client should have a ticket: hand the endpoint's answer to [`Connection::handle_answer`]. A close waits for it.
    TicketWanted {
        /// For whom.
        client_key: PublicKey,
        /// What it should remember; zeros: nothing.
        memory: PathMemory,
    },
    /// An id should be issued: hand the endpoint's answer to [`Connection::handle_answer`].
    IdWanted,
    /// One of this connection's ids is no longer in use.
    IdUnused(ConnectionId),
    /// A token told before means nothing any more.
    PeerTokenUnused(ResetToken),
    /// The session is to wait for its peer: hand the endpoint's answer to [`Connection::handle_answer`].
    WaitWanted {
        /// Who.
        peer: PublicKey,
        /// What the session holds.
        bytes: u64,
    },
    /// The session waits no longer, and goes on as it was.
    WaitOver,
    /// The session left by being suspended: who asks for it is not told that there is none.
    Left,
    /// The peer of a session that waits is to be dialled: hand the endpoint's answer to [`Connection::handle_answer`].
    DialWanted {
        /// Whom.
        peer: PublicKey,
    },
    /// The session goes on over another connection, addressed by this id; no other id of before counts any more.
    Reattached {
        /// Issued by the endpoint when it was asked.
        id: ConnectionId,
    },
    /// It ended because its peer's key is not let in any more.
    Revoked,
    /// The connection is over and its ids are free.
    Drained,
}

/// What an endpoint answers to some of the events it is told.
#[derive(Debug)]
pub enum EndpointAnswer {
    /// To [`EndpointEvent::TicketWanted`].
    Ticket(IssuedTicket),
    /// To [`EndpointEvent::IdWanted`].
    Id(ConnectionId, ResetToken),
    /// To [`EndpointEvent::WaitWanted`]: whether the session may wait, from when.
    Wait(Time, bool),
    /// To [`EndpointEvent::DialWanted`].
    Dial(Box<Dial>),
}

/// Paths a connection may have at the most.
pub const MOST_PATHS: usize = 8;

/// What was set up before the first sealed packet.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) side: Side,
    pub(crate) config: Arc<TransportConfig>,
    pub(crate) budgets: Budgets,
    pub(crate) remote: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    pub(crate) local_id: ConnectionId,
    pub(crate) remote_id: ConnectionId,
    /// The client is given tickets.
    pub(crate) issues_tickets: bool,
    pub(crate) rng: ChaCha20Rng,
}

/// See the module.
pub struct Connection {
    side: Side,
    config: Arc<TransportConfig>,
    budgets: Budgets,
    session: Session,
    paths: Paths,
    opening: Option<Box<Opening>>,
    keys: Option<KeyRing>,
    early_seal: Option<Box<EarlySeal>>,
    early_open: Option<Box<EarlyOpen>>,
    /// What was sealed under early keys may still arrive until then.
    early_until: Option<Time>,
    /// The server's answer to PING, repeated when PING is.
    pong: Option<Bytes>,
    pong_due: bool,
    /// PONGs sent.
    pongs: u8,
    pong_at: Time,
    /// From there to its next repetition to early packets.
    pong_wait: Duration,
    /// A packet under the final keys was opened: the peer is proven.
    confirmed: bool,
    peer_key: Option<PublicKey>,
    idle_timeout: Duration,
    last_received: Time,
    last_eliciting: Time,
    /// What is sent again now, nothing says was lost.
    doubling: bool,
    /// The packet being built holds what was lost.
    resending: bool,
    control: ControlQueue,
    addresses: Addresses,
    spare_ids: SpareIds,
    retired: Retired,
    /// What was counted on paths that are no more, those of earlier connections of the session among them.
    past: Option<Box<Totals>>,
    /// Of the deadline rule, once it had something to do.
    deadlines: Option<Box<DeadlineStats>>,
    coupling: Coupling,
    choice: Choice,
    changeover: Changeover,
    path_quota: PathQuota,
    attempts: Attempts,
    peer_max_packet: u64,
    /// When messages last went either way: paths that carry none are probed less and less often after it.
    last_data: Time,
    tickets: Ticketing,
    key_log: Option<Box<KeyLog>>,
    ending: Ending,
    /// A last packet to be sent, and to be repeated to a peer that goes on.
    farewell: Option<Vec<u8>>,
    farewell_due: bool,
    farewells_left: u8,
    unreachable_since: Option<Time>,
    watch: Option<Box<Watch>>,
    drained: bool,
    attachment: Attachment,
    /// Named by our SUSPEND.
    own_heir: Option<Box<PublicKey>>,
    /// RESUME is asked and not answered.
    resuming: bool,
    /// Pending, and only to say no.
    refusal: bool,
    /// Connections that may take this one's place.
    pending: Vec<Self>,
    /// The connection that is to carry the session next.
    dial: Option<Box<Redial>>,
    suspended: Option<Box<Suspended>>,
    events: Events,
    endpoint_events: VecDeque<EndpointEvent>,
    challenges: Challenges,
    scratch_sack: Option<Box<Sack>>,
    scratch_carried: Vec<Carried>,
    scratch_items: Vec<SentBlock>,
    dropped: stats::Dropped,
}

impl Connection {
    pub(crate) fn new(now: Time, setup: Setup) -> Self {
        let Setup { side, config, budgets, remote, local, local_id, remote_id, issues_tickets, mut rng } =
            setup;
        let ends = Ends { id: PathId::FIRST, remote, local, local_id, remote_id };
        let path = Path::new(now, ends, &config, PathLifecycle::proven());
        Self {
            side,
            session: Session::new(side, config.session).drawing_on(&budgets),
            budgets,
            paths: Paths::new(path),
            opening: None,
            keys: None,
            early_seal: None,
            early_open: None,
            early_until: None,
            pong: None,
            pong_due: false,
            pongs: 0,
            pong_at: now,
            pong_wait: receive::PONG_WAIT,
            confirmed: false,
            peer_key: None,
            idle_timeout: config.idle_timeout,
            last_received: now,
            last_eliciting: now,
            doubling: false,
            resending: false,
            control: ControlQueue::default(),
            addresses: Addresses::default(),
            spare_ids: SpareIds::default(),
            retired: Retired::default(),
            past: None,
            deadlines: None,
            coupling: Coupling::default(),
            choice: Choice::default(),
            changeover: Changeover::default(),
            path_quota: PathQuota::default(),
            attempts: Attempts::default(),
            peer_max_packet: u64::MAX,
            last_data: Time::ZERO,
            tickets: Ticketing::new(issues_tickets),
            key_log: config.key_log.then(Box::default),
            ending: Ending::default(),
            farewell: None,
            farewell_due: false,
            farewells_left: transmit::FAREWELLS,
            unreachable_since: None,
            watch: None,
            drained: false,
            attachment: Attachment::default(),
            own_heir: None,
            resuming: false,
            refusal: false,
            pending: Vec::new(),
            dial: None,
            suspended: None,
            events: Events::default(),
            endpoint_events: VecDeque::new(),
            challenges: Challenges::new(&mut rng),
            scratch_sack: None,
            scratch_carried: Vec::new(),
            scratch_items: Vec::new(),
            dropped: stats::Dropped::default(),
            config,
        }
    }

    /// Takes the endpoint's answer to one of the connection's events.
    pub fn handle_answer(&mut self, answer: EndpointAnswer) {
        match answer {
            EndpointAnswer::Ticket(ticket) => self.handle_ticket(ticket),
            EndpointAnswer::Id(id, token) => self.handle_id(id, &token),
            EndpointAnswer::Wait(now, granted) => self.wait_for_peer(now, granted),
            EndpointAnswer::Dial(dial) => self.begin_dial(*dial),
        }
    }

    /// Messages and streams.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Messages and streams, to look at.
    pub fn session_ref(&self) -> &Session {
        &self.session
    }

    /// The session's id, by which it can be resumed.
    pub fn session_id(&self) -> Option<[u8; 16]> {
        self.attachment.session
    }

    /// The session waits without a connection: the peer suspended it, or is out of reach.
    pub fn is_waiting(&self) -> bool {
        self.ending.is_waiting()
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The id by which the peer addresses this end on its first path.
    pub fn local_id(&self) -> ConnectionId {
        self.paths[Main].local_id
    }

    /// The peer's key: its identity. None until a client learns it.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.peer_key
    }

    /// Where the peer is.
    pub fn remote(&self) -> SocketAddr {
        self.paths[Main].remote
    }

    /// Established, and nothing is in flight: what is sent now goes out at once.
    pub fn is_idle(&self) -> bool {
        self.keys.is_some() && self.in_flight() == 0
    }

    /// The handshake is done.
    pub fn is_established(&self) -> bool {
        self.keys.is_some()
    }

    /// The peer has sent a packet under the final keys: it is who it says, and has the pre-shared key if there is one.
    pub fn is_peer_proven(&self) -> bool {
        self.confirmed
    }

    /// Over: nothing more is sent or delivered.
    pub fn is_closed(&self) -> bool {
        self.ending.is_over()
    }

    /// What the application should hear.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What the endpoint should hear.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        take_first(&mut self.endpoint_events)
    }

    /// Bytes of one message that travel in one packet at the present size.
    pub fn max_unfragmented(&self) -> usize {
        // Head, tag, DATA with everything set: 9 + 4 + 16 + 2 + 8 + 8 + 1 + 8 + 1 + 4.
        usize::from(self.paths.mtu()).saturating_sub(62)
    }

    /// Closes politely: what is queued is delivered first, then FIN. Nothing more can be sent. Before the handshake is done, what is
    /// queued waits for it; without anything queued it is given up at once. A suspended session that the peer has not given back is not
    /// closed: it can be resumed again.
    pub fn close(&mut self, now: Time, code: u64, text: &str) {
        if self.is_waiting() && !self.is_awaited() {
            self.finish(now, CloseReason::Local, None);
            return;
        }
        if self.is_waiting() {
            // Its peer is on its way back: what is queued for it is delivered first.
            self.stop_waiting();
        }
        if !self.is_established() && (self.resuming || self.session.is_drained()) {
            self.abort(now, code, text);
            return;
        }
        if self.ending.on_close(now, Reason::new(code, text), self.config.close_timeout) {
            self.session.begin_close();
            self.issue_last_ticket();
        }
    }

    fn in_flight(&self) -> u64 {
        self.paths.iter().map(|path| path.recovery.in_flight()).sum()
    }

    /// Gives back memory kept for speed: the connection has been idle for a while.
    fn trim(&mut self) {
        self.session.trim();
        for path in self.paths.iter_mut() {
            path.recovery.trim();
            path.received.trim();
        }
        self.scratch_items = Vec::new();
        self.spare_ids.trim();
        self.scratch_carried = Vec::new();
        self.scratch_sack = None;
    }

    /// Ends at once; what was not delivered is lost, and its outcome Unknown.
    pub fn abort(&mut self, now: Time, code: u64, text: &str) {
        self.finish(now, CloseReason::Local, Some((Cause::Application, Reason::new(code, text))));
    }

    /// The peer sent this stateless reset token. Of a path that is closed it says nothing: there the peer may have forgotten the id only.
    pub fn handle_reset(&mut self, now: Time, token: &ResetToken) {
        if !self.paths.iter().any(|path| path.token.as_ref() == Some(token)) {
            return;
        }
        if self.may_detach() {
            // It may have the session yet, and say so when it is dialled, or come back by itself.
            self.detach(now);
        } else if self.is_awaited() {
            // It has lost this connection because it goes on over another, which its next packet shows.
        } else if matches!(self.ending, Ending::Suspending { .. }) {
            // Nobody is left to answer.
            self.finish_suspend(now, None);
        } else if !self.ending.is_waiting() {
            self.finish(now, CloseReason::PeerRestarted, None);
        }
    }

    /// The peer repeated PING: it missed PONG.
    pub fn handle_repeated_ping(&mut self, ping: &Datagram) {
        if self.repeat_pending(ping) {
            return;
        }
        // Wherever it came from, PONG goes to where the first came from; what another sends buys that address nothing.
        if ping.from == self.paths[Main].remote {
            self.paths[Main].validation.on_received(ping.bytes.len());
        }
        self.pong_due = self.pong.is_some() && !self.confirmed;
    }

    /// The peer missed every PONG and sent another PING, whose cookie proves where it is now.
    pub fn handle_second_ping(&mut self, ping: &Datagram) {
        if self.pong.is_some() && !self.confirmed {
            self.paths[Main].move_to(ping.from, ping.to);
            self.pong_due = true;
            self.pongs = 0;
        }
    }

    fn finish(&mut self, now: Time, why: CloseReason, tell: Option<(Cause, Reason)>) {
        if self.ending.is_over() {
            return;
        }
        if let Some((cause, reason)) = tell {
            self.prepare_farewell(now, cause, &reason);
        }
        self.ending = Ending::Over { until: now + self.paths.drain_time() };
        self.opening = None;
        self.dial = None;
        self.session.end();
        if why != CloseReason::PeerRestarted {
            self.refresh_ticket();
        }
        self.events.push_back(Event::Closed(why));
    }

    /// Tells everything a packet carried what became of it.
    fn settle(
        now: Time,
        fate: Fate,
        item: &SentBlock,
        session: &mut Session,
        control: &mut ControlQueue,
        notes: &mut Notes,
    ) {
        match (item, fate) {
            (SentBlock::Session(Carried::Run { first, .. }), Fate::Acked)
                if planted(Mutant::AcknowledgementDropped) && first % 8 == 5 => {}
            (SentBlock::Session(carried), Fate::Acked) => session.on_acked(now, carried),
            (SentBlock::Session(carried), Fate::Lost) => session.on_lost(now, carried),
            (SentBlock::ControlBlock(block), Fate::Acked) => {
                control.on_acked(*block);
                notes.fin_ack_acked |= *block == ControlBlock::FinAck;
            }
            (SentBlock::ControlBlock(block), Fate::Lost) => control.on_lost(*block),
            (SentBlock::Sack(largest), Fate::Acked) => {
                notes.sack_acked = notes.sack_acked.max(Some(*largest))
            }
            (SentBlock::SackOf(path, largest), Fate::Acked) => {
                notes.other_sack_acked = Some((*path, *largest))
            }
            (SentBlock::Sack(_) | SentBlock::SackOf(..), Fate::Lost) => {}
            (SentBlock::MtuProbe(size), fate) => notes.mtu_probe = Some((*size, fate)),
            (SentBlock::Answer, fate) => notes.answered |= fate == Fate::Acked,
        }
    }

    /// What the fates of packets mean to the path itself.
    fn take_notes(&mut self, now: Time, at: At, notes: Notes) {
        if let Some(largest) = notes.sack_acked {
            self.paths[at].received.on_sack_acked(largest);
        }
        if let Some((path, largest)) = notes.other_sack_acked
            && let Some(other) = self.paths.by_id(path)
        {
            self.paths[other].received.on_sack_acked(largest);
        }
        if notes.answered {
            self.on_proven_there(at);
        }
        let grown = match notes.mtu_probe {
            Some((size, Fate::Acked)) => self.paths[at].mtu.on_probe_acked(now, size).is_some(),
            Some((size, Fate::Lost)) => {
                self.paths[at].mtu.on_probe_lost(now, size);
                false
            }
            None => false,
        };
        // Loss of packets as long as the path is known to take may mean a black hole.
        let full = self.paths[at].recovery.take_full();
        if full.acked > 0 {
            self.paths[at].mtu.on_full_acked();
        } else if notes.acked > 0 {
            self.paths[at].mtu.on_small_acked();
        }
        let shrunk = (0..full.lost).any(|_| self.paths[at].mtu.on_full_lost());
        if grown || shrunk {
            let size = u64::from(self.paths[at].mtu.current()) + self.paths[at].headers();
            self.paths[at].recovery.set_packet_size(size);
            self.events.push_back(Event::MaxUnfragmented(self.max_unfragmented()));
        }
        if notes.fin_ack_acked && matches!(self.ending, Ending::FinAckSent { .. }) {
            self.finish_peer_closed(now);
        }
    }

    fn finish_peer_closed(&mut self, now: Time) {
        if let Ending::FinAckSent { reason, .. } = &mut self.ending {
            let reason = std::mem::take(reason);
            self.finish(now, CloseReason::Peer(reason), None);
        }
    }
}

/// Takes the first. News are rare: who has heard all of them keeps no room for more.
fn take_first<T>(news: &mut VecDeque<T>) -> Option<T> {
    let first = news.pop_front();
    if news.is_empty() {
        *news = VecDeque::new();
    }
    first
}

/// Collected while packets' items are told their fates; acted on when the path is free again.
#[derive(Debug, Default)]
struct Notes {
    sack_acked: Option<u64>,
    /// Of several the last: ranges of the others are dropped with their next.
    other_sack_acked: Option<(PathId, u64)>,
    mtu_probe: Option<(u16, Fate)>,
    /// The peer had the answer to its challenge.
    answered: bool,
    /// Packets newly acknowledged.
    acked: u64,
    fin_ack_acked: bool,
}
