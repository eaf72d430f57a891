//! UDP programs that know nothing of the proxy: each, known by its source, has a task of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::interval;
use whimbrel_net::host_addresses;

use super::ingress::Ingress;
use super::senders::Senders;
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
    all: Senders<Sent>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared<O> {
    ingress: Ingress,
    outlet: O,
    /// Networks that programs reach without the proxy.
    except: Vec<IpNet>,
    /// The addresses of this host.
    own: Mutex<Vec<IpAddr>>,
    told: Mutex<Option<Instant>>,
}

impl<O: Outlet> UdpPrograms<O> {
    /// Programs whose datagrams go where the rules say: so far none. They reach the networks in `except` without the proxy.
    pub(super) fn new(ingress: Ingress, outlet: O, except: Vec<IpNet>) -> Self {
        let limits = ingress.limits();
        let all = Senders::new(limits.max_flows, limits.max_udp_programs);
        let shared = Shared { ingress, outlet, except, own: Mutex::default(), told: Mutex::default() };
        shared.look_at_own();
        Self { shared: Arc::new(shared), all, tasks: JoinSet::new() }
    }

    /// Takes a datagram.
    pub(super) fn take(&mut self, from: SocketAddr, datagram: Sent) {
        let program = self.all.of(from, || {
            let (send, sent) = mpsc::channel(WAITING);
            self.tasks.spawn(Arc::clone(&self.shared).serve(from, sent));
            send
        });
        // A full queue loses the datagram, and so does a host with too many programs.
        program.map(|program| program.try_send(datagram));
    }

    /// Forgets programs that are idle.
    pub(super) fn expire(&mut self) {
        self.shared.look_at_own();
        self.all.forget_closed();
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
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if *port == 0 || !may_speak_for(*ip, &own, &self.except) || ip.is_ipv4() != to.is_ipv4() {
            return false;
        }
        drop(own);
        self.outlet.reply(payload, SocketAddr::new(*ip, *port), to);
        true
    }

    fn look_at_own(&self) {
        if let Ok(addresses) = host_addresses() {
            let own = addresses.into_iter().map(|address| address.ip).collect();
            *self.own.lock().unwrap_or_else(PoisonError::into_inner) = own;
        }
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

/// Whether a peer's reply may come from this address: not from this host, its links or groups, and not from a host that
/// programs reach without the proxy, which answers for itself.
fn may_speak_for(ip: IpAddr, own: &[IpAddr], except: &[IpNet]) -> bool {
    let ip = ip.to_canonical();
    !is_special(ip) && !own.contains(&ip) && !except.iter().any(|network| network.contains(&ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_peer_answers_for_no_host_that_is_reached_without_it() {
        let (own, except) = (["10.0.1.1".parse().unwrap()], ["192.168.0.0/16".parse().unwrap()]);
        for (from, may) in [
            ("10.0.9.9", true),
            ("2001:db8::9", true),
            ("10.0.1.1", false),
            ("192.168.7.1", false),
            ("::ffff:192.168.7.1", false),
            ("127.0.0.1", false),
            ("224.0.0.251", false),
        ] {
            assert_eq!(may_speak_for(from.parse().unwrap(), &own, &except), may, "{from}");
        }
    }
}
