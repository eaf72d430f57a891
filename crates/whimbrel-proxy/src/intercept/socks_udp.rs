//! UDP through SOCKS5: an association is a socket for one client, and lives as long as its TCP connection.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use fast_socks5::server::SocksServerError;
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, new_udp_header, parse_udp_request};
use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Duration, interval};

use super::ingress::Ingress;
use super::socks::{Client, target_of};
use super::udp_program::UdpProgram;
use super::waiting::Watched;
use crate::policy::{Action, Protocol};
use crate::protocol::{Host, Target};
use crate::relay::{FlowRecord, Reply, replies};

const LARGEST: usize = 65_535;
/// How often idleness is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Serves an association until its TCP connection ends.
pub(super) async fn associate(
    ingress: &Ingress,
    client: Client,
    [local, from]: [SocketAddr; 2],
    said: &Target,
) -> Result<(), SocksServerError> {
    let record = FlowRecord::new(Protocol::Udp, "".into()).of(Some(from)).from(ingress.origin());
    let Some(running) = ingress.flows().add(record, ingress.limits().max_flows) else {
        return client.reply_error(&ReplyError::GeneralFailure).await;
    };
    // On the address that the client has reached.
    let Ok(socket) = UdpSocket::bind((local.ip(), 0)).await else {
        return client.reply_error(&ReplyError::GeneralFailure).await;
    };
    let (Ok(address), port) = (socket.local_addr(), said.port) else {
        return client.reply_error(&ReplyError::GeneralFailure).await;
    };
    let mut tcp = client.reply_success(address).await?;
    let (send, replies) = replies();
    let mut association = Association {
        ingress,
        socket,
        host: from.ip(),
        port,
        client: None,
        send,
        record: &running.record,
        active: Instant::now(),
    };
    association.run(&mut tcp, replies).await;
    Ok(())
}

struct Association<'a> {
    ingress: &'a Ingress,
    socket: UdpSocket,
    /// The only host that may use it.
    host: IpAddr,
    /// The port that the client said it would send from; 0: any.
    port: u16,
    /// The client, once it has sent something. No other may send from then on.
    client: Option<(SocketAddr, UdpProgram)>,
    send: mpsc::Sender<Reply>,
    record: &'a FlowRecord,
    active: Instant,
}

impl Association<'_> {
    async fn run(&mut self, tcp: &mut Watched, mut replies: mpsc::Receiver<Reply>) {
        let (mut buffer, mut nothing, mut look) = (vec![0; LARGEST], [0; 64], interval(LOOK));
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => {
                    // An error is an earlier reply's: the client's port is closed.
                    if let Ok((length, from)) = received {
                        self.on_datagram(&buffer[..length], from).await;
                    }
                }
                Some(reply) = replies.recv() => self.reply(&reply).await,
                read = tcp.read(&mut nothing) => {
                    if !matches!(read, Ok(1..)) {
                        break;
                    }
                }
                _ = look.tick() => {
                    if self.active.elapsed() >= self.ingress.limits().udp_idle {
                        break;
                    }
                }
            }
        }
    }

    async fn on_datagram(&mut self, datagram: &[u8], from: SocketAddr) {
        let is_client = from.ip().to_canonical() == self.host.to_canonical()
            && (self.port == 0 || from.port() == self.port)
            && self.client.as_ref().is_none_or(|(client, _)| *client == from);
        if !is_client {
            return;
        }
        // Fragments (RFC 1928 section 7) are rarely used, and may be dropped.
        let Ok((0, target, payload)) = parse_udp_request(datagram).await else { return };
        let Some(remote) = target_of(target).filter(|target| target.port > 0) else { return };
        self.active = Instant::now();
        let (ingress, send) = (self.ingress, &self.send);
        let (_, program) =
            self.client.get_or_insert_with(|| (from, UdpProgram::new(ingress.clone(), from, send.clone())));
        if let (Action::Carry, saved) = program.send(remote, payload) {
            self.record.count(payload.len() as u64, 0);
            self.record.save(saved, 0);
        }
    }

    async fn reply(&mut self, reply: &Reply) {
        let Some((client, program)) = &mut self.client else { return };
        if !program.may_answer(reply) {
            return;
        }
        let Reply { from: remote, payload, saved, .. } = reply;
        let from = match &remote.host {
            Host::Ip(ip) => TargetAddr::Ip((*ip, remote.port).into()),
            Host::Name(name) => TargetAddr::Domain(name.to_string(), remote.port),
        };
        let Ok(mut reply) = new_udp_header(from) else { return };
        reply.extend_from_slice(payload);
        self.active = Instant::now();
        self.record.count(0, payload.len() as u64);
        self.record.save(0, *saved);
        // A full buffer loses the datagram.
        self.socket.send_to(&reply, *client).await.ok();
    }
}
