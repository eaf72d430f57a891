//! The near end of a TCP flow: it opens the stream and waits for the answer.

use bytes::Bytes;
use tokio::net::TcpStream;
use whimbrel::{Mocket, Stream};

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
            Self::ByPeer(outcome) => outcome,
            Self::NoSession => Outcome::NetworkUnreachable,
            Self::Limit => Outcome::Limit,
            Self::Malformed => Outcome::Failed,
        }
    }
}

/// A flow whose far end is connected, or will be: see [`Opened::answer`].
#[derive(Debug)]
pub struct Opened {
    stream: Stream,
    running: Running,
}

impl Opened {
    /// Opens the stream of a flow.
    pub(crate) async fn open(mocket: &Mocket, opening: &Opening, running: Running) -> Result<Self, Refused> {
        let opened = mocket.open_stream_with(opening.to_bytes()).await;
        opened.map(|stream| Self { stream, running }).map_err(|_| Refused::NoSession)
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

    /// Hands on bytes until the flow ends. `first` was read from the program already.
    pub async fn run(self, tcp: TcpStream, first: Bytes, limits: &Limits) -> Ended {
        let Self { stream, running } = self;
        hand_over(Flow::new(Socket::new(tcp, first), stream.into()), &running.record, limits).await
    }
}
