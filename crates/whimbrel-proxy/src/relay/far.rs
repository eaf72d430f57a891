//! The far end of TCP flows: it connects to the target that a peer asks for.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::bond::Bond;
use super::carrier::Carrier;
use super::channel::StreamChannel;
use super::connect::connect;
use super::context::SessionContext;
use super::flows::RunningFlow;
use super::hand_over::hand_over;
use super::introduce::header;
use super::record::FlowRecord;
use super::restarts::Restarts;
use super::socket::Socket;
use super::speaking::speaks_as;
use super::steering::{Helm, Steering};
use super::wish::Wish;
use crate::connector::{Link, Stream};
use crate::flow::Flow;
use crate::policy::Protocol;
use crate::protocol::{Agreement, Answer, Host, Opening, Outcome, Target, codes};

/// A connection to the target, the flow's place in the table, its share, and its compression with the bytes in front.
type Connected = (Socket, RunningFlow, OwnedSemaphorePermit, Option<(Wish, u32)>);

/// The flows that a peer has open at this end.
#[derive(Debug)]
pub(super) struct FarEnd {
    link: Link,
    context: Arc<SessionContext>,
    helm: Arc<Helm>,
    restarts: Restarts,
    bond: Arc<Bond>,
}

impl FarEnd {
    pub(super) fn new(
        link: Link,
        context: Arc<SessionContext>,
        helm: Arc<Helm>,
        restarts: Restarts,
        bond: Arc<Bond>,
    ) -> Self {
        Self { link, context, helm, restarts, bond }
    }

    /// Serves a stream that the peer has opened. Returns where it went, and how it ended or why it was refused.
    pub(super) async fn serve(&self, mut stream: Stream) {
        let Ok(opening) = Opening::from_bytes(stream.opening()) else {
            stream.reset(codes::PROTOCOL);
            stream.stop(codes::PROTOCOL);
            self.context.flows.refuse();
            self.context.note("flow refused", serde_json::json!({ "why": "its opening is malformed" }));
            return;
        };
        match self.open(&mut stream, &opening).await {
            Err(outcome) => {
                self.context.flows.refuse();
                refuse(&mut stream, outcome).await;
                let (target, program) = (opening.target.to_string(), opening.source);
                self.context.note(
                    "flow refused",
                    serde_json::json!({
                        "protocol": "tcp", "target": target, "program": program, "why": outcome.to_string(),
                    }),
                );
            }
            Ok((socket, running, permit, agreed)) => {
                let channel = StreamChannel::accepted(self.link.clone(), stream, opening.manner, &self.bond);
                let channel = Carrier::new(channel, agreed, &running.record, &self.restarts);
                self.run(Flow::new(socket, channel), running, permit).await;
            }
        }
    }

    /// Hands on bytes until the flow ends, or goes on in another process.
    pub(super) async fn run(
        &self,
        mut flow: Flow<Socket, Carrier>,
        running: RunningFlow,
        _permit: OwnedSemaphorePermit,
    ) {
        let stream = flow.channel().stream();
        let steering = Steering::Peer(self.helm.steer(stream.id(), stream.steered()));
        match hand_over(&mut flow, &running, &self.context.limits, steering).await {
            Some(ended) => self.context.note_ended(&running.record, ended),
            None => running.park(flow),
        }
    }

    /// Tells a target whose connection it is, if it is one that expects that.
    async fn introduce(&self, tcp: &mut TcpStream, opening: &Opening) {
        let Ok(target) = tcp.peer_addr() else { return };
        if self.context.permits().introduce(&opening.target.host, target.ip(), opening.target.port) {
            // It fits into the socket's buffer. An error means that the connection is gone, which the flow sees.
            tcp.write_all(&header(opening.source, target)).await.ok();
        }
    }

    async fn open(&self, stream: &mut Stream, opening: &Opening) -> Result<Connected, Outcome> {
        let context = &self.context;
        let permit = Arc::clone(&context.shares.flows).try_acquire_owned().map_err(|_| Outcome::Limit)?;
        let record = FlowRecord::new(Protocol::Tcp, Arc::clone(&context.peer))
            .by_peer()
            .to(&opening.target)
            .of(opening.source);
        let running = context.flows.add(record, context.limits.max_flows).ok_or(Outcome::Limit)?;
        let connected = async {
            let _turn = context.shares.connecting.acquire().await.map_err(|_| Outcome::Failed)?;
            connect_for(&opening.target, opening.source, context).await
        };
        let connected = tokio::select! {
            connected = connected => connected,
            // The peer has given up, so nobody needs the connection.
            _ = stream.stopped() => Err(Outcome::Failed),
        };
        let mut tcp = connected?;
        self.introduce(&mut tcp, opening).await;
        let asked = opening.manner.compression;
        let agreed = asked.and_then(|asked| Some((Wish::new(asked, &context.means)?, asked)));
        let agreement = agreed.as_ref().map_or(Agreement::Plain, |(wish, asked)| wish.agreement(*asked));
        let answer = Answer { outcome: Outcome::Connected, address: tcp.local_addr().ok(), agreement };
        // If the peer has given up meanwhile, the flow ends at once.
        drop(stream.write_bytes(answer.to_bytes().into()).await);
        let agreed = agreed.map(|(wish, asked)| (wish, asked.plain));
        Ok((Socket::new(tcp), running, permit, agreed))
    }
}

/// Connects to a target on behalf of a peer's program, and in its name if the peer may speak for it.
async fn connect_for(
    target: &Target,
    program: Option<SocketAddr>,
    context: &SessionContext,
) -> Result<TcpStream, Outcome> {
    let permits = context.permits();
    if !permits.may_look_up(target.port) {
        return Err(Outcome::Denied);
    }
    let allowed = |ip| {
        let is_allowed = permits.allow(&target.host, ip, target.port);
        // A flow to this proxy itself would be a loop.
        is_allowed && !context.is_loop(Protocol::Tcp, SocketAddr::new(ip, target.port))
    };
    let turn = match &target.host {
        Host::Name(_) => Some(&*context.shares.look_ups),
        Host::Ip(_) => None,
    };
    let source = |target: IpAddr| speaks_as(&permits, program, target);
    connect(target, allowed, source, turn, &context.limits, context.mark).await
}

/// Tells the peer why, and reads no more.
async fn refuse(stream: &mut Stream, outcome: Outcome) {
    drop(stream.write_bytes(Answer::of(outcome).to_bytes().into()).await);
    stream.finish();
    stream.stop(codes::RESET);
}
