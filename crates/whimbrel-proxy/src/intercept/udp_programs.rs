//! UDP programs that know nothing of the proxy: each, known by its source, has a task of its own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::ingress::Ingress;
use super::udp_program::UdpProgram;
use crate::policy::{Action, Dscp, Protocol, is_special};
use crate::protocol::{Host, Target};
use crate::relay::{FlowRecord, Reply, replies};

/// Datagrams of one program that wait for its task. Further ones are lost, as in a socket's buffer.
const WAITING: usize = 128;
/// How often idleness is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// The least time between two errors that tell programs of a rule.
const BETWEEN_ERRORS: Duration = Duration::from_millis(10);

/// How programs hear.
pub(super) trait Outlet: Send + Sync + 'static {
    /// Hands a datagram to a program, in the name of `source`. What cannot be handed over is lost, as on a link.
    fn reply(&self, payload: &[u8], source: SocketAddr, program: SocketAddr);

    /// Tells a program that it may not send to this target.
    fn refuse(&self, program: SocketAddr, target: SocketAddr);
}

/// Where a datagram was sent to, its payload, and its DSCP if that is known.
type Sent = (SocketAddr, Bytes, Option<Dscp>);

/// The programs.
#[derive(Debug)]
pub(super) struct UdpPrograms<O> {
    shared: Arc<Shared<O>>,
    all: HashMap<SocketAddr, mpsc::Sender<Sent>>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared<O> {
    ingress: Ingress,
    outlet: O,
    told: Mutex<Option<Instant>>,
}

impl<O: Outlet> UdpPrograms<O> {
    /// Programs whose datagrams go where the rules say: so far none.
    pub(super) fn new(ingress: Ingress, outlet: O) -> Self {
        let shared = Arc::new(Shared { ingress, outlet, told: Mutex::default() });
        Self { shared, all: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Takes a datagram.
    pub(super) fn take(&mut self, from: SocketAddr, (target, payload, dscp): Sent) {
        if self.all.get(&from).is_none_or(mpsc::Sender::is_closed) {
            let (send, sent) = mpsc::channel(WAITING);
            self.tasks.spawn(Arc::clone(&self.shared).serve(from, sent));
            self.all.insert(from, send);
        }
        // A full queue loses the datagram.
        self.all.get(&from).map(|program| program.try_send((target, payload, dscp)));
    }

    /// Forgets programs that are idle.
    pub(super) fn expire(&mut self) {
        self.all.retain(|_, program| !program.is_closed());
        while self.tasks.try_join_next().is_some() {}
    }
}

impl<O: Outlet> Shared<O> {
    /// Serves a program until it is idle for too long.
    async fn serve(self: Arc<Self>, from: SocketAddr, mut sent: mpsc::Receiver<Sent>) {
        // Messages between proxies have no scope of a link.
        let address = SocketAddr::new(from.ip(), from.port());
        let record = FlowRecord::new(Protocol::Udp, "".into()).of(Some(address)).from(self.ingress.origin());
        let limits = self.ingress.limits();
        let Some(running) = self.ingress.flows().add(record, limits.max_flows) else { return };
        let (send, mut replies) = replies();
        let mut program = UdpProgram::new(self.ingress.clone(), address, send);
        let (mut active, mut look) = (Instant::now(), interval(LOOK));
        loop {
            tokio::select! {
                datagram = sent.recv() => {
                    let Some((target, payload, dscp)) = datagram else { return };
                    active = Instant::now();
                    let (action, saved) = program.send_with(target.into(), &payload, dscp);
                    running.record.save(saved, 0);
                    match action {
                        Action::Carry => running.record.count(payload.len() as u64, 0),
                        Action::Reject => self.refuse(address, target),
                        Action::Drop | Action::Direct | Action::Hold => {}
                    }
                }
                Some(reply) = replies.recv() => {
                    if program.may_answer(&reply) && self.reply(&reply, from) {
                        active = Instant::now();
                        running.record.count(0, reply.payload.len() as u64);
                        running.record.save(0, reply.saved);
                    }
                }
                _ = look.tick() => {
                    if active.elapsed() >= limits.udp_idle {
                        return;
                    }
                }
            }
        }
    }

    /// Hands a reply to a program. Returns whether its source makes sense.
    fn reply(&self, Reply { from, payload, .. }: &Reply, to: SocketAddr) -> bool {
        let Target { host: Host::Ip(ip), port } = from else { return false };
        // No peer speaks for this host, its links or groups.
        if *port == 0 || is_special(*ip) || ip.is_ipv4() != to.is_ipv4() {
            return false;
        }
        self.outlet.reply(payload, SocketAddr::new(*ip, *port), to);
        true
    }

    /// Tells a program that it may not, unless that was just told to somebody.
    fn refuse(&self, program: SocketAddr, target: SocketAddr) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|last| last.elapsed() >= BETWEEN_ERRORS) {
            *told = Some(Instant::now());
            self.outlet.refuse(program, target);
        }
    }
}
