//! UDP through SOCKS5: an association is a socket for one client, and lives as long as its TCP connection.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fast_socks5::server::SocksServerError;
use fast_socks5::util::target_addr::TargetAddr;
use fast_socks5::{ReplyError, new_udp_header, parse_udp_request};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::{Duration, interval};

use super::ingress::{Ingress, manner};
use super::socks::{Client, target_of};
use crate::policy::{Action, Decision, Key, Protocol, Rules};
use crate::protocol::{Announcement, Host, Target};
use crate::relay::{FlowRecord, Peer, Program, Reply, replies};

/// The most remotes whose decisions are remembered.
const MOST_REMOTES: usize = 1_024;
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
    let record = FlowRecord::new(Protocol::Udp, "".into()).of(Some(from));
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
        remotes: HashMap::new(),
        rules: ingress.rules(),
        peers: BTreeMap::new(),
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
    /// The client's address, once it has sent something. No other may send from then on.
    client: Option<SocketAddr>,
    /// What the rules say of each remote.
    remotes: HashMap<Target, Decision>,
    /// The rules by which that was decided.
    rules: Arc<Rules>,
    /// The peers that it uses, by name.
    peers: BTreeMap<Arc<str>, (Peer, Program)>,
    send: mpsc::Sender<Reply>,
    record: &'a FlowRecord,
    active: Instant,
}

impl Association<'_> {
    async fn run(&mut self, tcp: &mut TcpStream, mut replies: mpsc::Receiver<Reply>) {
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
        for (peer, _) in self.peers.values() {
            if let (Some(client), Some(session)) = (self.client, peer.session()) {
                session.outgoing().forget(client);
            }
        }
    }

    async fn on_datagram(&mut self, datagram: &[u8], from: SocketAddr) {
        let is_client = from.ip().to_canonical() == self.host.to_canonical()
            && (self.port == 0 || from.port() == self.port)
            && self.client.is_none_or(|client| client == from);
        if !is_client {
            return;
        }
        // Fragments (RFC 1928 section 7) are rarely used, and may be dropped.
        let Ok((0, target, payload)) = parse_udp_request(datagram).await else { return };
        let Some(remote) = target_of(target).filter(|target| target.port > 0) else { return };
        (self.client, self.active) = (Some(from), Instant::now());
        let decision = self.decide(&remote, from);
        if decision.action != Action::Carry {
            return;
        }
        self.record.count(payload.len() as u64, 0);
        let peer = self.ingress.peer(&decision);
        let name = Arc::clone(&peer.context().peer);
        let send = &self.send;
        let (peer, _) =
            self.peers.entry(name).or_insert_with(|| (peer.clone(), peer.programs().add(from, send.clone())));
        // Without a session the datagram is lost, as on a link that is down.
        if let Some(session) = peer.session() {
            let manner = manner(&decision);
            let announcement = Announcement { program: from, remote, to_program: false, manner };
            session.outgoing().send(&announcement, manner, Bytes::copy_from_slice(payload));
        }
    }

    fn decide(&mut self, remote: &Target, from: SocketAddr) -> Decision {
        let rules = self.ingress.rules();
        if !Arc::ptr_eq(&rules, &self.rules) || self.remotes.len() >= MOST_REMOTES {
            self.remotes.clear();
            self.rules = rules;
        }
        if let Some(decision) = self.remotes.get(remote) {
            return decision.clone();
        }
        let key = Key { protocol: Protocol::Udp, target: remote.clone(), source: from };
        let decision = self.rules.decide(&key);
        self.remotes.insert(remote.clone(), decision.clone());
        decision
    }

    async fn reply(&mut self, Reply { peer, from: remote, payload }: &Reply) {
        let Some(client) = self.client else { return };
        // What the program reaches over one peer, no other may answer for.
        let other = self.remotes.get(remote).map(|decision| &self.ingress.peer(decision).context().peer);
        if other.is_some_and(|other| other != peer) {
            return;
        }
        let from = match &remote.host {
            Host::Ip(ip) => TargetAddr::Ip((*ip, remote.port).into()),
            Host::Name(name) => TargetAddr::Domain(name.to_string(), remote.port),
        };
        let Ok(mut reply) = new_udp_header(from) else { return };
        reply.extend_from_slice(payload);
        self.active = Instant::now();
        self.record.count(0, payload.len() as u64);
        // A full buffer loses the datagram.
        self.socket.send_to(&reply, client).await.ok();
    }
}
