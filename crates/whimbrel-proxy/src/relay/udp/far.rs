//! The far end of UDP programs: one socket a program and family, from which it reaches all its remotes. So a reply may
//! come from anywhere (endpoint-independent mapping and filtering, RFC 4787 sections 4.1 and 5).

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::codecs::Codecs;
use super::far_socket::{FarSocket, Replies};
use super::outgoing::Outgoing;
use super::programs::Programs;
use crate::policy::{Permits, Protocol};
use crate::protocol::{Announcement, Context, Datagram, Host, Instance, Manner, Refusal, Target};
use crate::relay::connect::look_up;
use crate::relay::echo::Pings;
use crate::relay::record::{FlowRecord, Running};
use crate::relay::session::SessionContext;
use crate::upgrade::UdpParts;

/// Datagrams that wait for the address of a name.
const MOST_WAITING: usize = 16;
/// Their bytes, for all names of a session.
const MOST_WAITING_BYTES: usize = 1 << 20;
/// The part of the limit on idleness after which a program makes room for another.
const QUIET: u32 = 10;
/// The least time between two searches for such programs.
const PAUSE: Duration = Duration::from_secs(1);
/// The part of all contexts that is forgotten at once if there are too many.
const FORGOTTEN: usize = 16;
/// The largest payload of UDP. Nothing longer was a datagram.
const LONGEST: usize = 65_507;

/// The peer's UDP programs, and the contexts that the peer has announced.
#[derive(Debug)]
pub(crate) struct FarPrograms {
    context: Arc<SessionContext>,
    outgoing: Arc<Outgoing>,
    codecs: Arc<Codecs>,
    found: mpsc::Sender<Found>,
    pings: Pings,
    contexts: HashMap<Context, Entry>,
    programs: HashMap<SocketAddr, FarProgram>,
    /// Bytes that wait for names.
    waiting: usize,
    /// When quiet programs were last searched for.
    searched: Option<Instant>,
}

/// An address that was looked up.
#[derive(Debug)]
pub(crate) struct Found {
    context: Context,
    address: Result<SocketAddr, Refusal>,
}

#[derive(Debug)]
struct Entry {
    announced: Announcement,
    state: State,
    used: Instant,
}

#[derive(Debug)]
enum State {
    /// Its datagrams go to a program at this end.
    ToProgram,
    /// They go to this address.
    To(SocketAddr),
    /// They are ICMP echo with this host.
    Echo(IpAddr),
    /// They are sent on to this group, as that proxy has heard them.
    Group(SocketAddr, Instance),
    /// The name is being looked up.
    LookingUp(Vec<Bytes>),
    Refused(Refusal),
}

/// A program of the peer.
#[derive(Debug)]
struct FarProgram {
    v4: Option<Arc<FarSocket>>,
    v6: Option<Arc<FarSocket>>,
    running: Arc<Running>,
    /// How its replies are sent, as its last announcement asked.
    manner: Arc<Mutex<Manner>>,
    _share: OwnedSemaphorePermit,
    seen: (u64, Instant),
}

impl FarPrograms {
    pub(crate) fn new(
        context: Arc<SessionContext>,
        outgoing: Arc<Outgoing>,
        codecs: Arc<Codecs>,
        found: mpsc::Sender<Found>,
    ) -> Self {
        let (contexts, programs) = (HashMap::new(), HashMap::new());
        let pings = Pings::new(Arc::clone(&context), Arc::clone(&outgoing));
        Self { context, outgoing, codecs, found, pings, contexts, programs, waiting: 0, searched: None }
    }

    /// Returns what another process needs to go on: announcements of contexts, and each program with its sockets.
    pub(crate) fn parts(&self) -> UdpParts {
        let announced = |(context, entry): (&Context, &Entry)| {
            Datagram::Announcement(*context, entry.announced.clone()).to_bytes()
        };
        let sockets = |(program, far): (&SocketAddr, &FarProgram)| {
            let sockets = [&far.v4, &far.v6].into_iter().flatten();
            let files = sockets.filter_map(|socket| socket.file().ok());
            (*program, files.collect())
        };
        UdpParts {
            contexts: self.contexts.iter().map(announced).collect(),
            programs: self.programs.iter().map(sockets).collect(),
        }
    }

    /// Goes on with what another process has left.
    pub(crate) fn resume(&mut self, parts: UdpParts) {
        for (program, files) in parts.programs {
            let Some(mut far) = self.begin(program) else { continue };
            for file in files {
                let socket = std::net::UdpSocket::from(file);
                let Ok(is_v4) = socket.local_addr().map(|address| address.is_ipv4()) else { continue };
                let resumed = FarSocket::resume(program, socket, &self.context, far.replies(&self.outgoing));
                *(if is_v4 { &mut far.v4 } else { &mut far.v6 }) = resumed;
            }
            self.programs.insert(program, far);
        }
        for announcement in parts.contexts {
            if let Ok(Datagram::Announcement(context, announced)) = Datagram::from_bytes(announcement) {
                self.on_announced(context, announced);
            }
        }
    }

    pub(crate) fn on_announced(&mut self, context: Context, announced: Announcement) {
        let now = Instant::now();
        if let Some(entry) = self.contexts.get_mut(&context) {
            // A context means the same for ever. What it was refused for may have changed.
            if entry.announced != announced || !matches!(entry.state, State::Refused(_)) {
                return;
            }
            self.contexts.remove(&context);
        }
        if self.contexts.len() >= self.context.limits.max_udp_contexts {
            self.make_room();
        }
        let state = match &announced.remote.host {
            _ if announced.to_program => State::ToProgram,
            Host::Ip(ip) => {
                let address = SocketAddr::new(*ip, announced.remote.port);
                match self.context.permits().allow(&announced.remote.host, *ip, address.port()) {
                    true if address.port() == 0 => State::Echo(*ip),
                    true if announced.heard_by.is_some() => self.group(&announced, address),
                    // A session within a session of the same pair.
                    true if self.context.is_loop(Protocol::Udp, address) => State::Refused(Refusal::Denied),
                    true => State::To(address),
                    false => State::Refused(Refusal::Denied),
                }
            }
            Host::Name(_) => self.look_up(context, announced.remote.clone()),
        };
        if let State::Refused(refusal) = state {
            self.refuse(context, refusal);
            self.context.flows.refuse();
        } else if announced.manner.compression.is_some_and(|by| self.codecs.has(by)) {
            self.outgoing.tell_reliably(&Datagram::Compresses(context));
        }
        self.contexts.insert(context, Entry { announced, state, used: now });
    }

    pub(crate) fn on_datagram(&mut self, context: Context, payload: Bytes, programs: &Programs) {
        if payload.len() > LONGEST {
            return;
        }
        let packed = payload.len();
        let Some((context, payload)) = self.unpacked(context, payload) else { return };
        let saved = payload.len() - packed.min(payload.len());
        let Some(entry) = self.contexts.get_mut(&context) else {
            return self.refuse(context, Refusal::Unknown);
        };
        entry.used = Instant::now();
        match &mut entry.state {
            State::LookingUp(waiting) => {
                if waiting.len() < MOST_WAITING && self.waiting + payload.len() <= MOST_WAITING_BYTES {
                    self.waiting += payload.len();
                    waiting.push(payload);
                }
            }
            State::Refused(_) => {}
            State::ToProgram => {
                let Announcement { program, remote, .. } = entry.announced.clone();
                if remote.port == 0 {
                    return programs.hand_over_echo(program, remote, payload);
                }
                programs.hand_over(program, remote, payload, saved);
            }
            State::Group(group, instance) => {
                let multicast = self.context.multicast.as_ref().filter(|_| self.context.shares.may_send_on());
                if let Some(multicast) = multicast {
                    multicast.send_on(*instance, entry.announced.program, *group, &payload);
                }
            }
            State::Echo(target) => {
                let (target, program, manner) = (*target, entry.announced.program, entry.announced.manner);
                if let Err(refusal) = self.pings.send(program, target, manner, payload) {
                    self.refuse(context, refusal);
                }
            }
            State::To(address) => {
                let (address, program, manner) = (*address, entry.announced.program, entry.announced.manner);
                if let Err(refusal) = self.send(program, manner, address, (&payload, saved)) {
                    self.refuse(context, refusal);
                }
            }
        }
    }

    /// Returns what becomes of datagrams to a group that the peer may reach.
    fn group(&self, announced: &Announcement, group: SocketAddr) -> State {
        let (multicast, heard_by) = (&self.context.multicast, announced.heard_by);
        let (Some(multicast), Some(instance)) = (multicast, heard_by.filter(|_| group.ip().is_multicast()))
        else {
            return State::Refused(Refusal::Unusable);
        };
        if multicast.is(instance) {
            self.context
                .note("datagrams refused", serde_json::json!({ "why": "they come from this proxy: a loop" }));
            return State::Refused(Refusal::Denied);
        }
        State::Group(group, instance)
    }

    /// Returns a datagram as it was before it was compressed, and its context. `None`: it cannot be read.
    fn unpacked(&self, context: Context, payload: Bytes) -> Option<(Context, Bytes)> {
        if self.contexts.contains_key(&context) {
            return Some((context, payload));
        }
        let of_packed = context.uncompressed().filter(|plain| self.contexts.contains_key(plain));
        let by = of_packed.and_then(|plain| self.contexts[&plain].announced.manner.compression);
        let (Some(plain), Some(by)) = (of_packed, by) else { return Some((context, payload)) };
        self.codecs.unpack(by, &payload, LONGEST).ok().map(|payload| (plain, payload))
    }

    pub(crate) fn on_found(&mut self, found: Found) {
        let Some(entry) = self.contexts.get_mut(&found.context) else { return };
        let State::LookingUp(waiting) = &mut entry.state else { return };
        let (waiting, program, manner) =
            (std::mem::take(waiting), entry.announced.program, entry.announced.manner);
        self.waiting -= waiting.iter().map(Bytes::len).sum::<usize>();
        let found_address =
            found.address.and_then(|address| match self.context.is_loop(Protocol::Udp, address) {
                true => Err(Refusal::Denied),
                false => Ok(address),
            });
        match found_address {
            Ok(address) => {
                entry.state = State::To(address);
                for payload in waiting {
                    if let Err(refusal) = self.send(program, manner, address, (&payload, 0)) {
                        return self.refuse(found.context, refusal);
                    }
                }
            }
            Err(refusal) => {
                entry.state = State::Refused(refusal);
                self.refuse(found.context, refusal);
                self.context.flows.refuse();
            }
        }
    }

    /// Closes the sockets of programs that were idle for too long.
    pub(crate) fn sweep(&mut self) {
        self.pings.sweep();
        self.close_idle(self.context.limits.udp_idle);
    }

    /// Closes those of programs that were quiet for a part of that time, so that whoever uses many ports in turn keeps others out
    /// for no longer.
    fn close_quiet(&mut self) {
        let now = Instant::now();
        if self.searched.is_none_or(|last| now.duration_since(last) >= PAUSE) {
            self.searched = Some(now);
            self.close_idle(self.context.limits.udp_idle / QUIET);
        }
    }

    fn close_idle(&mut self, idle: Duration) {
        let now = Instant::now();
        let mut gone = BTreeSet::new();
        self.programs.retain(|program, far| {
            let is_idle = far.is_idle(now, idle);
            if is_idle {
                gone.insert(*program);
            }
            !is_idle
        });
        if gone.is_empty() {
            return;
        }
        gone.iter().for_each(|program| self.outgoing.forget(*program));
        // All at once: a peer may have many of both.
        let is_gone = |entry: &Entry| gone.contains(&entry.announced.program) && !entry.announced.to_program;
        let contexts = self.contexts.iter().filter(|(_, entry)| is_gone(entry));
        let contexts: Vec<_> = contexts.map(|(context, _)| *context).collect();
        contexts.into_iter().for_each(|context| self.forget(context));
    }

    fn send(
        &mut self,
        program: SocketAddr,
        manner: Manner,
        to: SocketAddr,
        (payload, saved): (&[u8], usize),
    ) -> Result<(), Refusal> {
        if !self.programs.contains_key(&program) {
            if self.context.shares.udp_programs.available_permits() == 0 {
                self.close_quiet();
            }
            let far = self.begin(program).ok_or(Refusal::Limit)?;
            self.programs.insert(program, far);
        }
        let far = self.programs.get_mut(&program).ok_or(Refusal::Limit)?;
        *far.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
        let replies = far.replies(&self.outgoing);
        let socket = if to.is_ipv4() { &mut far.v4 } else { &mut far.v6 };
        let socket = match socket {
            Some(socket) => socket,
            None => {
                let made = FarSocket::open(program, to, &self.context, replies);
                socket.insert(made.ok_or(Refusal::Unusable)?)
            }
        };
        // A full buffer loses the datagram, and so does a remote that is unreachable.
        socket.send(payload, to);
        far.running.record.count(0, payload.len() as u64);
        far.running.record.save(0, saved);
        Ok(())
    }

    fn begin(&self, program: SocketAddr) -> Option<FarProgram> {
        let context = &self.context;
        let share = Arc::clone(&context.shares.udp_programs).try_acquire_owned().ok()?;
        let record = FlowRecord::new(Protocol::Udp, Arc::clone(&context.peer)).by_peer().of(Some(program));
        let running = context.flows.add(record, context.limits.max_flows)?;
        Some(FarProgram {
            v4: None,
            v6: None,
            running: Arc::new(running),
            manner: Arc::default(),
            _share: share,
            seen: (0, Instant::now()),
        })
    }

    fn look_up(&self, context: Context, remote: Target) -> State {
        let Ok(turn) = Arc::clone(&self.context.shares.look_ups).try_acquire_owned() else {
            return State::Refused(Refusal::Limit);
        };
        let (permits, found): (Arc<Permits>, _) = (self.context.permits(), self.found.clone());
        let limit = self.context.limits.connect_timeout;
        tokio::spawn(async move {
            use crate::protocol::Outcome;

            let looked_up = tokio::time::timeout(limit, look_up(&remote, &permits)).await;
            let address = match looked_up {
                Ok(Ok(addresses)) => addresses.first().copied().ok_or(Refusal::Unusable),
                Ok(Err(Outcome::Denied)) => Err(Refusal::Denied),
                Ok(Err(_)) | Err(_) => Err(Refusal::Unusable),
            };
            drop(turn);
            // An error means that the session is over.
            found.send(Found { context, address }).await.ok();
        });
        State::LookingUp(Vec::new())
    }

    /// Forgets the contexts that were quiet for the longest time: some at once, since a peer's flood of new ones would
    /// otherwise cost a search each. If the peer still uses one, it is told.
    fn make_room(&mut self) {
        let mut by_use: Vec<_> =
            self.contexts.iter().map(|(context, entry)| (entry.used, *context)).collect();
        let last = by_use.len() / FORGOTTEN;
        if last < by_use.len() {
            by_use.select_nth_unstable(last);
            by_use[..=last].iter().for_each(|(_, context)| self.forget(*context));
        }
    }

    fn forget(&mut self, context: Context) {
        if let Some(Entry { state: State::LookingUp(waiting), .. }) = self.contexts.remove(&context) {
            self.waiting -= waiting.iter().map(Bytes::len).sum::<usize>();
        }
    }

    fn refuse(&self, context: Context, refusal: Refusal) {
        self.outgoing.tell(&Datagram::Refused(context, refusal));
    }
}

impl FarProgram {
    fn replies(&self, outgoing: &Arc<Outgoing>) -> Replies {
        Replies::new(Arc::clone(&self.running), Arc::clone(&self.manner), Arc::clone(outgoing))
    }

    fn is_idle(&mut self, now: Instant, limit: Duration) -> bool {
        let (to_peer, from_peer) = self.running.record.bytes();
        if to_peer + from_peer != self.seen.0 {
            self.seen = (to_peer + from_peer, now);
        }
        now.duration_since(self.seen.1) >= limit
    }
}
