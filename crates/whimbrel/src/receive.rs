//! The receive loop of a socket.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use whimbrel_net::{RecvPool, UdpSocket};
use whimbrel_proto::wire::packet::{CLEAR_BIT, destination};
use whimbrel_proto::{ConnectionId, Datagram, Routed, Time};

use crate::agreeing::leave;
use crate::ecn::from_net_ecn;
use crate::endpoint_shared::EndpointShared;
use crate::lock::lock;
use crate::mocket::Mocket;
use crate::serving::{SenderLane, Serving};
use crate::shared::Shared;

/// The number of buffers filled by one receive call. Each may hold several coalesced datagrams.
const BUFFERS: usize = 8;

/// How long a receive loop whose buffers fill up each time goes on before other tasks run.
const BUSY: Duration = Duration::from_millis(1);

/// A socket that is received from, and the way in for new peers.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) socket: Arc<UdpSocket>,
    /// The number of the socket among the endpoint's. Connections accepted here send by it. 0 without `accept`, where
    /// nothing uses it: the socket is one of a single network.
    pub(crate) home: usize,
    /// The channel of accepted connections. None: new connections are refused.
    pub(crate) accept: Option<mpsc::Sender<Mocket>>,
}

/// The receive loop of a socket. It runs until the endpoint and its connections are gone.
///
/// An endpoint may have several on one address. A connection's datagrams come to another loop than its own where its
/// peer's address has changed, or where it has several paths. That loop then serves the connection itself, for the
/// same slice of time. A queue to its own loop would have to be limited, and would wake another task for each packet.
pub(crate) async fn receive(shared: Arc<EndpointShared>, door: Door) {
    let mut changed = shared.changed.subscribe();
    let mut batch = RecvPool::new(BUFFERS);
    let mut serving = Serving::default();
    let (mut reply, mut accepted) = (Vec::new(), Vec::new());
    let (mut is_more, mut busy_since) = (false, shared.clock.now());
    loop {
        let others_wait = is_more && shared.clock.now().since(busy_since) >= BUSY;
        if others_wait || !serving.is_idle() {
            // Lets other tasks run, then reads without blocking what has arrived meanwhile.
            tokio::task::yield_now().await;
            if batch.try_fill(&door.socket).is_err_and(|error| error.kind() != ErrorKind::WouldBlock) {
                break;
            }
        } else {
            tokio::select! {
                filled = batch.fill_from(&door.socket) => {
                    if filled.is_err() {
                        // Errors of single datagrams are not reported here, so the socket itself has failed.
                        break;
                    }
                }
                _ = changed.changed() => {
                    if shared.is_over() {
                        break;
                    }
                    continue;
                }
            }
        }
        let now = shared.clock.now();
        is_more = batch.is_full();
        if !is_more || others_wait {
            busy_since = now;
        }
        route_batch(&shared, now, &door, &mut batch, &mut reply, &mut serving, &mut accepted);
        hand_over(&shared, &mut accepted, &door);
        serving.serve_fresh(&shared);
        serving.serve_next(&shared);
        tokio::task::coop::consume_budget().await;
    }
}

/// Sorts the received datagrams by connection. Unknown peers are answered at once.
fn route_batch(
    shared: &Arc<EndpointShared>,
    now: Time,
    door: &Door,
    batch: &mut RecvPool,
    reply: &mut Vec<u8>,
    serving: &mut Serving,
    accepted: &mut Vec<(SocketAddr, Routed)>,
) {
    // The endpoint's lock, taken when first needed. It must not be held while a connection is locked: connections
    // call the endpoint with their own lock held.
    let mut proto = None;
    // Datagrams often come in runs for one connection, so its lane is looked up once for a run.
    let mut last: Option<(ConnectionId, SocketAddr, SenderLane)> = None;
    let mut received = 0;
    batch.drain(|datagram| {
        received += 1;
        let datagram = Datagram {
            from: datagram.from,
            to: datagram.to,
            ecn: datagram.ecn.map(from_net_ecn),
            bytes: datagram.bytes,
        };
        let (from, to, size) = (datagram.from, datagram.to, datagram.bytes.len());
        let id = sealed_for(&datagram.bytes);
        if let Some((last_id, last_from, lane)) = last
            && Some(last_id) == id
            && last_from == from
        {
            serving.push(lane, size, Routed::Connection(lane.handle(), datagram));
            return;
        }
        reply.clear();
        let found =
            proto.get_or_insert_with(|| lock(&shared.proto)).handle_datagram_deferring(now, datagram, reply);
        if !matches!(found, Routed::Connection(..)) {
            // A datagram for no connection, even a forged one, may take as long as a handshake. The lock is released
            // for that.
            proto = None;
        }
        // An agreement that is not left to the other thread runs now: datagrams right behind the PING belong to the
        // connection that it begins.
        let found = match found {
            Routed::Agreeing(agreeing) => match leave(shared, now, door, *agreeing) {
                Some(agreeing) => {
                    let agreed = agreeing.run();
                    lock(&shared.proto).handle_agreed(now, agreed, reply)
                }
                None => Routed::Nothing,
            },
            found => found,
        };
        if let Some(handle) = found.handle() {
            let lane = serving.lane(handle, from);
            last = id.map(|id| (id, from, lane)).filter(|_| matches!(found, Routed::Connection(..)));
            serving.push(lane, size, found);
            return;
        }
        match found {
            Routed::Reply => reply_to(&door.socket, from, to, reply),
            found => accepted.push((from, found)),
        }
    });
    // Sockets of single networks are none of the endpoint's receive loops.
    if door.accept.is_some() {
        shared.count_received(door.home, received);
    }
}

/// Returns the connection ID that a sealed packet is addressed to. None for a packet in the clear.
fn sealed_for(packet: &[u8]) -> Option<ConnectionId> {
    destination(packet).filter(|(flags, _)| flags & CLEAR_BIT == 0).map(|(_, id)| id)
}

/// Sends a reply to an unknown peer, if there is one. A lost reply is not repeated: the peer asks again.
pub(crate) fn reply_to(socket: &UdpSocket, to: SocketAddr, source: Option<IpAddr>, reply: &[u8]) {
    if reply.is_empty() {
        return;
    }
    let transmit = whimbrel_net::Transmit {
        destination: to,
        ecn: None,
        contents: reply,
        segment_size: None,
        src_ip: source,
    };
    socket.try_send(&transmit).ok();
}

/// Registers accepted connections and offers them to the application.
pub(crate) fn hand_over(shared: &Arc<EndpointShared>, accepted: &mut Vec<(SocketAddr, Routed)>, door: &Door) {
    for (from, routed) in accepted.drain(..) {
        let Routed::Accepted(handle, connection) = routed else { continue };
        let locals = shared.locals_of_server(from);
        let connection = Shared::new(handle, *connection, locals, door.home, Arc::clone(shared));
        lock(&shared.connections).insert(handle, Arc::clone(&connection));
        shared.recheck_lists(shared.clock.now(), &connection);
        let mocket = Mocket::new(Arc::clone(&connection));
        if shared.refusing.load(Ordering::Acquire) {
            mocket.abort(0, "the endpoint is closed");
            continue;
        }
        if shared.config.listen.as_ref().is_some_and(|listen| listen.acceptor.psk.is_some()) {
            // Only a packet sealed with the final keys proves that the client holds the PSK, too. Nothing can be
            // received before that.
            let accept = door.accept.clone();
            tokio::spawn(async move {
                if mocket.proven().await.is_ok() {
                    offer(accept.as_ref(), mocket);
                }
            });
        } else {
            offer(door.accept.as_ref(), mocket);
        }
        connection.drive();
    }
}

/// Hands an accepted connection to the application. Aborts it if the backlog is full.
fn offer(accept: Option<&mpsc::Sender<Mocket>>, mocket: Mocket) {
    let refused = match accept {
        Some(accept) => accept.try_send(mocket).err().map(mpsc::error::TrySendError::into_inner),
        None => Some(mocket),
    };
    if let Some(refused) = refused {
        refused.abort(0, "the listener does not keep up");
    }
}
