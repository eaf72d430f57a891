//! The far end of UDP programs: where their datagrams go, by the contexts that the peer has announced.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::codecs::Codecs;
use super::far_contexts::{FarContexts, Route};
use super::far_program::FarProgram;
use super::outgoing::Outgoing;
use super::parts::UdpParts;
use super::programs::Programs;
use crate::policy::{Permits, Protocol};
use crate::protocol::{Announcement, Context, Datagram, Host, Manner, Outcome, Refusal, Target};
use crate::relay::connect::look_up;
use crate::relay::context::SessionContext;
use crate::relay::echo::Pings;

/// The part of the limit on idleness after which a program makes room for another.
const QUIET: u32 = 10;
/// The least time between two searches for such programs.
const PAUSE: Duration = Duration::from_secs(1);
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
    contexts: FarContexts,
    programs: HashMap<SocketAddr, FarProgram>,
    /// When quiet programs were last searched for.
    searched: Option<Instant>,
}

/// An address that was looked up.
#[derive(Debug)]
pub(crate) struct Found {
    context: Context,
    address: Result<SocketAddr, Refusal>,
}

impl FarPrograms {
    pub(crate) fn new(
        context: Arc<SessionContext>,
        outgoing: Arc<Outgoing>,
        codecs: Arc<Codecs>,
        found: mpsc::Sender<Found>,
    ) -> Self {
        let (contexts, programs) = (FarContexts::default(), HashMap::new());
        let pings = Pings::new(Arc::clone(&context), Arc::clone(&outgoing));
        Self { context, outgoing, codecs, found, pings, contexts, programs, searched: None }
    }

    /// Returns what another process needs to go on: announcements of contexts, and each program with its sockets.
    pub(crate) fn parts(&self) -> UdpParts {
        let sockets = |(address, program): (&SocketAddr, &FarProgram)| (*address, program.files());
        UdpParts {
            contexts: self.contexts.announcements(),
            programs: self.programs.iter().map(sockets).collect(),
        }
    }

    /// Goes on with what another process has left.
    pub(crate) fn resume(&mut self, parts: UdpParts) {
        for (address, files) in parts.programs {
            let Some(mut program) = FarProgram::begin(address, &self.context) else { continue };
            files.into_iter().for_each(|file| program.resume(file, &self.context, &self.outgoing));
            self.programs.insert(address, program);
        }
        for announcement in parts.contexts {
            if let Ok(Datagram::Announcement(context, announced)) = Datagram::from_bytes(announcement) {
                self.on_announced(context, announced);
            }
        }
    }

    pub(crate) fn on_announced(&mut self, context: Context, announced: Announcement) {
        let now = Instant::now();
        if let Some(known) = self.contexts.get(context) {
            // A context means the same for ever. What it was refused for may have changed.
            if known.announced != announced || !matches!(known.route, Route::Refused(_)) {
                return;
            }
            self.contexts.forget(context);
        }
        if self.contexts.count() >= self.context.limits.max_udp_contexts {
            self.contexts.make_room();
        }
        let route = match &announced.remote.host {
            _ if announced.to_program => Route::ToProgram,
            Host::Ip(ip) => {
                let address = SocketAddr::new(*ip, announced.remote.port);
                match self.context.permits().allow(&announced.remote.host, *ip, address.port()) {
                    true if address.port() == 0 => Route::Echo(*ip),
                    true if announced.heard_by.is_some() => self.group(&announced, address),
                    // A session within a session of the same pair.
                    true if self.context.is_loop(Protocol::Udp, address) => Route::Refused(Refusal::Denied),
                    true => Route::To(address),
                    false => Route::Refused(Refusal::Denied),
                }
            }
            Host::Name(_) => self.look_up(context, announced.remote.clone()),
        };
        if let Route::Refused(refusal) = route {
            self.refuse(context, refusal);
            self.context.flows.refuse();
        } else if announced.manner.compression.is_some_and(|by| self.codecs.has(by)) {
            self.outgoing.tell_reliably(&Datagram::Compresses(context));
        }
        self.contexts.add(context, announced, route, now);
    }

    pub(crate) fn on_datagram(&mut self, context: Context, payload: Bytes, programs: &Programs) {
        if payload.len() > LONGEST {
            return;
        }
        let packed = payload.len();
        let Some((context, payload)) = self.unpacked(context, payload) else { return };
        let saved = payload.len() - packed.min(payload.len());
        let Some(known) = self.contexts.of_datagram(context) else {
            return self.refuse(context, Refusal::Unknown);
        };
        match &known.route {
            Route::LookingUp(_) => self.contexts.keep(context, payload),
            Route::Refused(_) => {}
            Route::ToProgram => {
                let Announcement { program, remote, .. } = known.announced.clone();
                if remote.port == 0 {
                    return programs.hand_over_echo(program, remote, payload);
                }
                programs.hand_over(program, remote, payload, saved);
            }
            Route::Group(group, instance) => {
                let multicast = self.context.multicast.as_ref().filter(|_| self.context.shares.may_send_on());
                if let Some(multicast) = multicast {
                    multicast.send_on(*instance, known.announced.program, *group, &payload);
                }
            }
            Route::Echo(target) => {
                let (target, program, manner) = (*target, known.announced.program, known.announced.manner);
                if let Err(refusal) = self.pings.send(program, target, manner, payload) {
                    self.refuse(context, refusal);
                }
            }
            Route::To(address) => {
                let (address, program, manner) = (*address, known.announced.program, known.announced.manner);
                if let Err(refusal) = self.send(program, manner, address, (&payload, saved)) {
                    self.refuse(context, refusal);
                }
            }
        }
    }

    /// Returns what becomes of datagrams to a group that the peer may reach.
    fn group(&self, announced: &Announcement, group: SocketAddr) -> Route {
        let (multicast, heard_by) = (&self.context.multicast, announced.heard_by);
        let (Some(multicast), Some(instance)) = (multicast, heard_by.filter(|_| group.ip().is_multicast()))
        else {
            return Route::Refused(Refusal::Unusable);
        };
        if multicast.is(instance) {
            self.context
                .note("datagrams refused", serde_json::json!({ "why": "they come from this proxy: a loop" }));
            return Route::Refused(Refusal::Denied);
        }
        Route::Group(group, instance)
    }

    /// Returns a datagram as it was before it was compressed, and its context. `None`: it cannot be read.
    fn unpacked(&self, context: Context, payload: Bytes) -> Option<(Context, Bytes)> {
        if self.contexts.get(context).is_some() {
            return Some((context, payload));
        }
        let of_packed = context.uncompressed().and_then(|plain| Some((plain, self.contexts.get(plain)?)));
        let by = of_packed.and_then(|(plain, known)| Some((plain, known.announced.manner.compression?)));
        let Some((plain, by)) = by else { return Some((context, payload)) };
        self.codecs.unpack(by, &payload, LONGEST).ok().map(|payload| (plain, payload))
    }

    pub(crate) fn on_found(&mut self, found: Found) {
        let Some((waiting, announced)) = self.contexts.take_waiting(found.context) else { return };
        let address = found.address.and_then(|address| match self.context.is_loop(Protocol::Udp, address) {
            true => Err(Refusal::Denied),
            false => Ok(address),
        });
        match address {
            Ok(address) => {
                self.contexts.set_route(found.context, Route::To(address));
                for payload in waiting {
                    let sent = self.send(announced.program, announced.manner, address, (&payload, 0));
                    if let Err(refusal) = sent {
                        return self.refuse(found.context, refusal);
                    }
                }
            }
            Err(refusal) => {
                self.contexts.set_route(found.context, Route::Refused(refusal));
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
        self.contexts.forget_programs(&gone);
    }

    fn send(
        &mut self,
        address: SocketAddr,
        manner: Manner,
        to: SocketAddr,
        payload: (&[u8], usize),
    ) -> Result<(), Refusal> {
        if !self.programs.contains_key(&address) {
            if self.context.shares.udp_programs.available_permits() == 0 {
                self.close_quiet();
            }
            let program = FarProgram::begin(address, &self.context).ok_or(Refusal::Limit)?;
            self.programs.insert(address, program);
        }
        let program = self.programs.get_mut(&address).ok_or(Refusal::Limit)?;
        program.send(manner, to, payload, &self.context, &self.outgoing)
    }

    fn look_up(&self, context: Context, remote: Target) -> Route {
        let Ok(turn) = Arc::clone(&self.context.shares.look_ups).try_acquire_owned() else {
            return Route::Refused(Refusal::Limit);
        };
        let (permits, found): (Arc<Permits>, _) = (self.context.permits(), self.found.clone());
        let limit = self.context.limits.connect_timeout;
        tokio::spawn(async move {
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
        Route::LookingUp(Vec::new())
    }

    fn refuse(&self, context: Context, refusal: Refusal) {
        self.outgoing.tell(&Datagram::Refused(context, refusal));
    }
}
