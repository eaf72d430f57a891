//! The far end of TCP flows: it connects to the target that a peer asks for.

use std::sync::Arc;

use whimbrel::{Mocket, Stream};

use super::channel::StreamChannel;
use super::connect::connect_for;
use super::hand_over::hand_over;
use super::record::FlowRecord;
use super::session::SessionContext;
use super::socket::Socket;
use crate::flow::{Ended, Flow};
use crate::policy::Protocol;
use crate::protocol::{Answer, Opening, Outcome, codes};

/// What a peer has open at this end.
#[derive(Debug)]
pub(super) struct FarEnd {
    mocket: Mocket,
    context: Arc<SessionContext>,
}

impl FarEnd {
    pub(super) fn new(mocket: Mocket, context: Arc<SessionContext>) -> Self {
        Self { mocket, context }
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
        let ended =
            match self.open(&mut stream, &opening).await {
                Err(outcome) => {
                    self.context.flows.refuse();
                    refuse(&mut stream, outcome).await;
                    let (target, program) = (opening.target.to_string(), opening.source);
                    self.context.note("flow refused", serde_json::json!({
                    "protocol": "tcp", "target": target, "program": program, "why": outcome.to_string(),
                }));
                    return;
                }
                Ok((socket, running, _permit)) => {
                    let flow = Flow::new(socket, StreamChannel::new(self.mocket.clone(), stream));
                    let ended = hand_over(flow, &running.record, &self.context.limits).await;
                    self.context.note_ended(&running.record, ended);
                    ended
                }
            };
        debug_assert!(ended != Ended::GivenUp(0), "a flow that is given up says why");
    }

    async fn open(
        &self,
        stream: &mut Stream,
        opening: &Opening,
    ) -> Result<(Socket, super::record::Running, tokio::sync::OwnedSemaphorePermit), Outcome> {
        let context = &self.context;
        let permit = Arc::clone(&context.shares.flows).try_acquire_owned().map_err(|_| Outcome::Limit)?;
        let record = FlowRecord::new(Protocol::Tcp, Arc::clone(&context.peer))
            .by_peer()
            .to(&opening.target)
            .of(opening.source);
        let running = context.flows.add(record, context.limits.max_flows).ok_or(Outcome::Limit)?;
        let connected = async {
            let _turn = context.shares.connecting.acquire().await.map_err(|_| Outcome::Failed)?;
            connect_for(&opening.target, context).await
        };
        let connected = tokio::select! {
            connected = connected => connected,
            // The peer has given up, so nobody needs the connection.
            _ = stream.writer().stopped() => Err(Outcome::Failed),
        };
        let tcp = connected?;
        if let Some(priority) = opening.manner.priority {
            stream.set_priority(priority);
        }
        let answer = Answer { outcome: Outcome::Connected, address: tcp.local_addr().ok() };
        // If the peer has given up meanwhile, the flow ends at once.
        drop(stream.write_bytes(answer.to_bytes().into()).await);
        Ok((Socket::new(tcp), running, permit))
    }
}

/// Tells the peer why, and reads no more.
async fn refuse(stream: &mut Stream, outcome: Outcome) {
    use tokio::io::AsyncWriteExt;

    drop(stream.write_bytes(Answer::of(outcome).to_bytes().into()).await);
    drop(stream.shutdown().await);
    stream.stop(codes::RESET);
}
