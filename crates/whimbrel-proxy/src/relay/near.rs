//! The near end of a TCP flow: it opens the stream and waits for the answer.

use bytes::Bytes;
use tokio::net::TcpStream;
use whimbrel::{Mocket, Stream};

use super::channel::StreamChannel;
use super::hand_over::hand_over;
use super::limits::Limits;
use super::record::{FlowRecord, Running};
use super::socket::Socket;
use crate::flow::{Ended, Flow};
use crate::protocol::{Answer, AnswerReader, Opening, Outcome, codes};

/// A flow that could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The far end answered so.
    #[error("{0}")]
    ByPeer(Outcome),
    /// This proxy could not connect by itself.
    #[error("not carried, by a rule: {}", direct(*.0))]
    Direct(Outcome),
    /// A rule of this proxy does not allow it.
    #[error("a rule of this proxy does not allow it")]
    ByRule,
    /// The session is over, or was not there in time.
    #[error("the peer is not connected")]
    NoSession,
    /// This proxy has as many flows as it may have.
    #[error("this proxy has too many flows")]
    Limit,
    /// The peer's answer makes no sense.
    #[error("the peer broke the protocol of the proxy")]
    Malformed,
}

impl Refused {
    /// Returns the outcome that comes closest.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::ByPeer(outcome) | Self::Direct(outcome) => outcome,
            Self::ByRule => Outcome::Denied,
            Self::NoSession => Outcome::NetworkUnreachable,
            Self::Limit => Outcome::Limit,
            Self::Malformed => Outcome::Failed,
        }
    }
}

fn direct(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NameNotFound => "the name is not found",
        Outcome::Failed | Outcome::Limit | Outcome::Denied | Outcome::Connected => "connecting failed",
        Outcome::Refused => "the target refused the connection",
        Outcome::HostUnreachable => "the target's host is unreachable",
        Outcome::NetworkUnreachable => "the target's network is unreachable",
        Outcome::TimedOut => "the target did not answer",
    }
}

/// A flow whose far end is connected, or will be: see [`Opened::answer`].
#[derive(Debug)]
pub struct Opened {
    mocket: Mocket,
    stream: Stream,
    running: Running,
}

impl Opened {
    /// Opens the stream of a flow.
    pub(crate) async fn open(mocket: &Mocket, opening: &Opening, running: Running) -> Result<Self, Refused> {
        let opened = mocket.open_stream_with(opening.to_bytes()).await;
        let mut stream = opened.map_err(|_| Refused::NoSession)?;
        if let Some(priority) = opening.manner.priority {
            stream.set_priority(priority);
        }
        Ok(Self { mocket: mocket.clone(), stream, running })
    }

    /// Sends bytes before the answer is there. They ride with the opening.
    ///
    /// # Errors
    /// The session is over, or the far end has refused the flow, which [`Opened::answer`] says.
    pub async fn send_early(&mut self, bytes: Bytes) -> Result<(), Refused> {
        self.stream.write_bytes(bytes).await.map_err(|_| Refused::NoSession)
    }

    /// Waits for the far end's answer.
    ///
    /// # Errors
    /// The far end could not connect.
    pub async fn answer(&mut self) -> Result<Answer, Refused> {
        let mut reader = AnswerReader::default();
        loop {
            let bytes = match self.stream.read_bytes(reader.wants()).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(_) => return Err(Refused::NoSession),
            };
            match reader.take(&bytes) {
                Ok(None) => {}
                Ok(Some(answer @ Answer { outcome: Outcome::Connected, .. })) => return Ok(answer),
                Ok(Some(refused)) => return Err(Refused::ByPeer(refused.outcome)),
                Err(_) => break,
            }
        }
        self.stream.reset(codes::PROTOCOL);
        self.stream.stop(codes::PROTOCOL);
        Err(Refused::Malformed)
    }

    /// What the status shows of it.
    pub(crate) fn record(&self) -> std::sync::Arc<FlowRecord> {
        std::sync::Arc::clone(&self.running.record)
    }

    /// Hands on bytes until the flow ends.
    pub async fn run(self, tcp: TcpStream, limits: &Limits) -> Ended {
        let Self { mocket, stream, running } = self;
        let channel = StreamChannel::new(mocket, stream);
        hand_over(Flow::new(Socket::new(tcp), channel), &running.record, limits).await
    }
}
