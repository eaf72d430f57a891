//! The near end of a TCP flow: it opens the stream and waits for the answer.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;

use super::bond::Bond;
use super::carrier::Carrier;
use super::channel::StreamChannel;
use super::flows::RunningFlow;
use super::hand_over::hand_over;
use super::limits::Limits;
use super::record::FlowRecord;
use super::refused::Refused;
use super::restarts::Restarts;
use super::socket::Socket;
use super::steering::Steering;
use super::wish::Wish;
use crate::connector::Link;
use crate::flow::{Channel, Ended, Flow};
use crate::protocol::{Agreement, Answer, Opening, codes};

/// A flow whose far end is connected, or will be: see [`Opened::answer`].
#[derive(Debug)]
pub struct Opened {
    channel: StreamChannel,
    running: RunningFlow,
    /// The compression that was asked for, or once the answer is there, agreed on.
    wish: Option<Wish>,
    restarts: Restarts,
    is_answered: bool,
}

impl Opened {
    /// Opens the stream of a flow.
    pub(super) async fn open(
        link: &Link,
        opening: &Opening,
        running: RunningFlow,
        wish: Option<Wish>,
        restarts: &Restarts,
        bond: &Arc<Bond>,
    ) -> Result<Self, Refused> {
        let mut said = opening.clone();
        said.manner.compression = said.manner.compression.filter(|_| wish.is_some());
        let opened = link.open_stream(said.to_bytes().into()).await;
        let stream = opened.map_err(|_| Refused::NoSession)?;
        let channel = StreamChannel::opened(link.clone(), stream, opening.manner, bond);
        Ok(Self { channel, running, wish, restarts: restarts.clone(), is_answered: false })
    }

    /// Sends bytes before the answer is there. They ride with the opening, and are not compressed. An opening that asks for
    /// compression says how many they are.
    ///
    /// # Errors
    /// The session is over, or the far end has refused the flow, which [`Opened::answer`] says.
    pub async fn send_early(&mut self, mut bytes: Bytes) -> Result<(), Refused> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| self.channel.poll_write(cx, &mut bytes)).await;
            written.map_err(|_| Refused::NoSession)?;
        }
        Ok(())
    }

    /// Waits for the far end's answer.
    ///
    /// # Errors
    /// The far end could not connect.
    pub async fn answer(&mut self) -> Result<Answer, Refused> {
        let answer = poll_fn(|cx| self.channel.poll_answer(cx)).await?;
        if !self.is_answered {
            if self.wish.is_none() && answer.agreement != Agreement::Plain {
                self.channel.reset(codes::PROTOCOL);
                return Err(Refused::Malformed);
            }
            self.is_answered = true;
            self.wish = self.wish.take().and_then(|wish| wish.agreed(answer.agreement));
        }
        Ok(answer)
    }

    /// Returns the record of the flow that the status shows.
    pub(crate) fn record(&self) -> std::sync::Arc<FlowRecord> {
        std::sync::Arc::clone(&self.running.record)
    }

    /// Hands on bytes until the flow ends. The answer need not be there yet: what the program writes rides with the
    /// opening, and a refusal resets its connection. One that may be compressed waits for what the far end agrees to. None: it goes on in another process.
    ///
    /// # Errors
    /// The far end could not connect.
    pub(crate) async fn run(
        mut self,
        program: Socket,
        limits: &Limits,
        mut steering: Steering,
    ) -> Result<Option<Ended>, Refused> {
        let mut is_held = false;
        while self.wish.is_some() && !self.is_answered {
            tokio::select! {
                answer = self.answer() => {
                    answer?;
                }
                () = program.was_reset() => return Err(Refused::ProgramGone),
                change = steering.changed() => {
                    if let Some(code) = change.ends {
                        self.channel.reset(code);
                        return Ok(Some(Ended::GivenUp(code)));
                    }
                    is_held = change.is_held;
                    self.channel.set_priority(change.priority);
                    self.channel.set_cap(change.cap);
                }
            }
        }
        let Self { channel, running, wish, restarts, .. } = self;
        let channel = Carrier::new(channel, wish.map(|wish| (wish, 0)), &running.record, &restarts);
        let mut flow = Flow::new(program, channel);
        flow.set_held(is_held);
        run(flow, running, limits, steering).await
    }
}

/// Hands on bytes of a flow that this end has opened.
pub(super) async fn run(
    mut flow: Flow<Socket, Carrier>,
    running: RunningFlow,
    limits: &Limits,
    steering: Steering,
) -> Result<Option<Ended>, Refused> {
    let Some(ended) = hand_over(&mut flow, &running, limits, steering).await else {
        running.park(flow);
        return Ok(None);
    };
    flow.channel().stream().refused().map_or(Ok(Some(ended)), Err)
}
