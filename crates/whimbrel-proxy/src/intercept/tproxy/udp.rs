//! Datagrams that the kernel hands over: each program, known by its source, has a task of its own.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::replies::Replies;
use super::segment::datagram_refusal;
use super::sockets;
use super::tun::Tun;
use crate::intercept::ingress::Ingress;
use crate::intercept::udp_program::UdpProgram;
use crate::policy::{Action, Dscp, Protocol, is_special};
use crate::protocol::{Host, Target};
use crate::relay::{FlowRecord, Reply, replies};

const LARGEST: usize = 65_535;
/// Datagrams of one program that wait for its task. Further ones are lost, as in a socket's buffer.
const WAITING: usize = 128;
/// How often idleness is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// The pause after an error that will not pass at once.
const PAUSE: Duration = Duration::from_millis(100);
/// The least time between two errors that tell programs of a rule.
const BETWEEN_ERRORS: Duration = Duration::from_millis(10);

/// What all programs share.
#[derive(Debug)]
pub(super) struct Datagrams {
    ingress: Ingress,
    tun: Arc<Tun>,
    replies: Replies,
    told: Mutex<Option<Instant>>,
}

type Sent = (SocketAddr, Bytes, Option<Dscp>);

impl Datagrams {
    /// Datagrams that go where the rules say. Replies go out with `mark`.
    pub(super) fn new(ingress: Ingress, tun: Arc<Tun>, mark: u32) -> Arc<Self> {
        let replies = Replies::new(mark, Arc::clone(&tun));
        Arc::new(Self { ingress, tun, replies, told: Mutex::default() })
    }

    /// Takes the datagrams of one family, for ever.
    pub(super) async fn take(self: Arc<Self>, socket: UdpSocket) {
        let (mut programs, mut tasks) = (HashMap::new(), JoinSet::new());
        let (mut buffer, mut look) = (vec![0; LARGEST], interval(LOOK));
        loop {
            let received = tokio::select! {
                received = receive(&socket, &mut buffer) => received,
                _ = look.tick() => {
                    self.replies.close_idle();
                    programs.retain(|_, program: &mut mpsc::Sender<Sent>| !program.is_closed());
                    while tasks.try_join_next().is_some() {}
                    continue;
                }
            };
            match received {
                Ok((length, from, target, dscp)) if Some(target) != socket.local_addr().ok() => {
                    let sent = (target, Bytes::copy_from_slice(&buffer[..length]), dscp);
                    if programs.get(&from).is_none_or(mpsc::Sender::is_closed) {
                        let (send, sent) = mpsc::channel(WAITING);
                        tasks.spawn(Arc::clone(&self).serve(from, sent));
                        programs.insert(from, send);
                    }
                    // A full queue loses the datagram.
                    programs.get(&from).map(|program| program.try_send(sent));
                }
                // Somebody sent to the port itself, or the kernel did not say where it was sent to.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

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
        self.replies.send(payload, SocketAddr::new(*ip, *port), to);
        true
    }

    /// Tells a program that it may not, unless that was just told to somebody.
    fn refuse(&self, program: SocketAddr, target: SocketAddr) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|last| last.elapsed() >= BETWEEN_ERRORS) {
            *told = Some(Instant::now());
            if let Some(error) = datagram_refusal(program, target) {
                self.tun.write(&error);
            }
        }
    }
}

async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<sockets::Received> {
    socket.async_io(tokio::io::Interest::READABLE, || sockets::receive(socket, buffer)).await
}
