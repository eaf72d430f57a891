//! A proxy that hands over to another process, and one that takes over.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::SockRef;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use whimbrel::{Endpoint, Mocket, PublicKey, ResumeError, SuspendError, SuspendMode, SuspendedMocket};

use crate::connector::Link;
use crate::intercept::Ingress;
use crate::intercept::tun::{Claim, TunInterception};
use crate::news::News;
use crate::proxy::Proxy;
use crate::relay::{OtherEnd, Peer, Session, Unpacked};
use crate::upgrade::{Claimed, Parcel, SessionNote, SessionParcel};

/// How long connections that are being opened have to be there.
const OPENING: Duration = Duration::from_secs(5);
/// How long a peer has to answer that its session is suspended. It learns of it later otherwise.
const ANSWER: Duration = Duration::from_secs(3);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// The pause before a session is resumed again, if its peer did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Sessions of another process whose peers have not answered yet, and their flows.
#[derive(Debug, Default)]
pub(crate) struct Unanswered(Mutex<BTreeMap<usize, Left>>);

type Left = (SessionParcel, Vec<Claimed>);

impl Unanswered {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds those that are left to what is handed over.
    fn hand_over(&self, sessions: &mut Vec<SessionParcel>, flows: &mut Vec<Claimed>) {
        for (session, of_session) in std::mem::take(&mut *self.lock()).into_values() {
            let at = sessions.len();
            sessions.push(session);
            flows.extend(of_session.into_iter().map(|mut claimed| {
                if let OtherEnd::Stream(session, _) = &mut claimed.flow.other {
                    *session = at;
                }
                claimed
            }));
        }
    }
}

impl Proxy {
    /// Takes the proxy apart for another process. Programs that connect wait, and connections that are being opened
    /// have 5 s. Nothing else ends; UDP programs have to send once more.
    pub async fn hand_over(mut self) -> Parcel {
        self.tun.iter().for_each(TunInterception::hold);
        self.ways_in.shutdown().await;
        let deadline = Instant::now() + OPENING;
        let is_opening =
            || self.common.flows.is_opening() || self.ingress.as_ref().is_some_and(Ingress::is_opening);
        while is_opening() && Instant::now() < deadline {
            sleep(LOOK).await;
        }
        // From here on, nothing is dialled, accepted, or taken from a session.
        self.sessions.shutdown().await;
        let parked = self.common.flows.park().await;
        let mut suspending = JoinSet::new();
        let peers = self.peers.now();
        for (key, peer) in peers.all() {
            for session in peer.sessions() {
                let (key, name, tell) = (*key, Arc::clone(&peer.context().peer), self.tell.clone());
                suspending.spawn(async move {
                    let suspended = suspend(&session, key).await;
                    let suspended = suspended.inspect_err(|why| (tell.0)(News::Lost(name, why.clone())));
                    (suspended.ok(), session.link().clone())
                });
            }
        }
        let (mut sessions, mut links) = (Vec::new(), Vec::new());
        while let Some(suspended) = suspending.join_next().await {
            if let Ok((Some(session), link)) = suspended {
                sessions.push(session);
                links.push(link);
            }
        }
        // What is left waits for peers, or serves datagrams. It would keep the sessions, and with them the port.
        self.common.flows.over().end();
        // The other process gets the port once the sessions have said that they leave.
        drop(timeout(ANSWER, self.endpoint.wait_idle()).await);
        let packed = parked.into_iter().filter_map(|parked| {
            let session = match parked.link() {
                // The session of a flow that ends has ended.
                Some(link) => links.iter().position(|known| known == link)?,
                None => 0,
            };
            parked.pack(session).map(|flow| Claimed { flow, claim: None })
        });
        let mut flows = packed.collect();
        self.unanswered.hand_over(&mut sessions, &mut flows);
        let port = self.endpoint.local_addr().map_or(0, |address| address.port());
        let listeners = std::mem::take(&mut self.listeners);
        let listeners = listeners.into_iter().map(|(name, listener)| (name, listener.into())).collect();
        let (interception, mut tun) = (self.interception.take(), self.tun.take());
        if let Some(tun) = &mut tun {
            tun.rest().await;
        }
        Parcel { port, listeners, interception, tun, sessions, flows }
    }

    /// Goes on with sessions and flows of another process. Sessions of peers that are not there any more end.
    pub(crate) fn unpack(&mut self, parcel: Parcel) {
        let Parcel { sessions, flows, .. } = parcel;
        let mut of_sessions: Vec<Vec<Claimed>> = sessions.iter().map(|_| Vec::new()).collect();
        for mut claimed in flows {
            claimed.claim = self.claim(&claimed.flow.program);
            match claimed.flow.other {
                OtherEnd::Stream(session, _) => of_sessions[session].push(claimed),
                OtherEnd::Direct(_) => {
                    let Claimed { flow, claim } = claimed;
                    let flow = Unpacked::direct(flow, &self.common.flows, &self.common.limits);
                    if let (Some(flow), Some(ingress)) = (flow, &self.ingress) {
                        ingress.go_on(flow, None, claim);
                    }
                }
            }
        }
        for (at, (session, flows)) in sessions.into_iter().zip(of_sessions).enumerate() {
            let Some(peer) = self.peers.now().of_key(&session.note.peer).cloned() else { continue };
            let (endpoint, ingress, tell) = (self.endpoint.clone(), self.ingress.clone(), self.tell.clone());
            let (suspended, address) = (SuspendedMocket::from_bytes(&session.state), session.note.address);
            // Until the peer has answered, all of it can be handed over once more.
            let unanswered = Arc::clone(&self.unanswered);
            unanswered.lock().insert(at, (session, flows));
            self.sessions.spawn(async move {
                let resumed = match suspended {
                    Ok(suspended) => resume(&endpoint, &suspended, address).await,
                    Err(error) => Err(error.to_string()),
                };
                let Some((session, flows)) = unanswered.lock().remove(&at) else { return };
                let mocket = match resumed {
                    Ok(mocket) => mocket,
                    Err(why) => return (tell.0)(News::Lost(Arc::clone(&peer.context().peer), why)),
                };
                let resumed = peer.begin(Link::Whimbrel(mocket));
                resumed.outgoing().begin_at(session.note.next_context);
                resumed.resume_udp(session.udp);
                let left = go_on(flows, &resumed, &peer, ingress.as_ref());
                resumed.serve_left(left);
                peer.serve(resumed).await;
            });
        }
    }
}

impl Proxy {
    /// A program's connection goes on. If it came by the interface, that has to know how long.
    fn claim(&self, program: &OwnedFd) -> Option<Claim> {
        let tun = self.tun.as_ref()?;
        tun.claim(SockRef::from(program).peer_addr().ok()?.as_socket()?)
    }
}

async fn suspend(session: &Session, peer: PublicKey) -> Result<SessionParcel, String> {
    // Who runs a proxy over TCP is told before it comes so far.
    let mocket = session.link().mocket().ok_or("a session over TCP cannot be handed over")?;
    let address = mocket.peer_addr();
    let mut suspending = std::pin::pin!(mocket.suspend(SuspendMode::Snapshot));
    let suspended = match timeout(ANSWER, &mut suspending).await {
        Ok(suspended) => suspended,
        Err(_) => {
            mocket.suspend_unanswered();
            suspending.await
        }
    };
    let state = suspended.map_err(|error: SuspendError| error.to_string())?.to_bytes();
    let next_context = session.outgoing().next();
    let udp = session.udp_parts();
    Ok(SessionParcel { note: SessionNote { peer, address, next_context }, state, udp })
}

/// Resumes a session, as long as its peer may still come.
async fn resume(
    endpoint: &Endpoint,
    suspended: &SuspendedMocket,
    address: SocketAddr,
) -> Result<Mocket, String> {
    loop {
        match endpoint.resume(suspended, Some(address)).await {
            Ok(mocket) => return Ok(mocket),
            Err(ResumeError::Closed(whimbrel::CloseReason::HandshakeTimedOut) | ResumeError::NoPath(_)) => {
                sleep(PAUSE).await;
            }
            Err(why) => return Err(why.to_string()),
        }
    }
}

/// Goes on with the flows of a session. Returns the streams that are left: flows that were being opened.
fn go_on(
    flows: Vec<Claimed>,
    session: &Session,
    peer: &Peer,
    ingress: Option<&Ingress>,
) -> Vec<whimbrel::StreamId> {
    let mut left = session.link().mocket().map(Mocket::byte_streams).unwrap_or_default();
    for Claimed { flow, claim } in flows {
        if let OtherEnd::Stream(_, saved) = &flow.other {
            left.retain(|id| id.0 != saved.stream);
        }
        if let (Some(flow), Some(ingress)) = (session.unpack(flow), ingress) {
            ingress.go_on(flow, Some((session, peer)), claim);
        }
    }
    left
}
