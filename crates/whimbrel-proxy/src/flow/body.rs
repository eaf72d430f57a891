//! The body of a flow: bytes in both directions, each of which ends by itself (half-close), until both have ended or
//! one end is reset. A reset of either end resets the other, as in TCP.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use super::ends::{Broken, Channel, Program};
use super::hold::{Held, HoldBudget};
use crate::protocol::codes;

/// How often a direction goes on in one poll before others have a turn.
const TURNS: usize = 16;
/// The most bytes that a program has not read yet when its flow goes on in another process.
const MOST_UNREAD: usize = 4 << 20;

/// The end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Both directions ended, and every byte was handed on.
    Finished,
    /// The program's connection was reset.
    ResetByProgram,
    /// The peer reset the stream with this code: its program's connection was reset, or it gave the flow up.
    ResetByPeer(u64),
    /// The session is over.
    SessionLost,
    /// This end gave the flow up with this code.
    GivenUp(u64),
}

/// A flow. See the module documentation.
#[derive(Debug)]
pub struct Flow<P, C> {
    program: P,
    channel: C,
    hand: InHand,
    /// Behind what is in hand to the peer.
    held: Held,
    /// Small writes of the program that wait for others. Nothing is in hand to the peer meanwhile.
    small: BytesMut,
    /// The bytes read from the peer while the flow is taken apart. They may come in a great many parts.
    gathered: BytesMut,
    /// Nothing is handed on meanwhile, so that both ends wait.
    is_held: bool,
    ended: Option<Ended>,
}

/// The state of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Bytes may come.
    #[default]
    Open,
    /// The end was read. What was read before is still being written.
    Ending,
    /// It has ended.
    Done,
}

/// The bytes that a flow has read at one end and not yet written at the other, and how far each direction is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InHand {
    /// From the program to the peer.
    pub out: Bytes,
    /// From the peer to the program.
    pub back: Vec<Bytes>,
    /// The state of the direction to the peer.
    pub out_state: Direction,
    /// The state of the direction to the program.
    pub back_state: Direction,
    /// The bytes that went to the peer.
    pub sent: u64,
    /// The bytes that went to the program.
    pub received: u64,
}

/// Whether a direction could do something.
enum Step {
    Went,
    Waits,
    /// It polled often enough for one turn.
    Tired,
}

impl<P: Program, C: Channel> Flow<P, C> {
    /// A flow between these two ends.
    pub fn new(program: P, channel: C) -> Self {
        Self::resume(program, channel, InHand::default())
    }

    /// A flow that goes on where another, of which this is in hand, was taken apart.
    pub fn resume(program: P, channel: C, hand: InHand) -> Self {
        let (held, small, gathered) = (Held::default(), BytesMut::new(), BytesMut::new());
        Self { program, channel, hand, held, small, gathered, is_held: false, ended: None }
    }

    /// Takes the flow apart. Nothing is closed.
    pub fn into_parts(mut self) -> (P, C, InHand) {
        self.hand.out = self.held.join(&self.hand.out);
        if !self.small.is_empty() {
            self.hand.out = self.small.freeze();
        }
        (self.program, self.channel, self.hand)
    }

    /// Bytes of the program that were handed to the stream, and bytes of the peer that were handed to the program.
    pub fn bytes(&self) -> (u64, u64) {
        (self.hand.sent, self.hand.received)
    }

    /// Returns the program's connection.
    pub fn program(&self) -> &P {
        &self.program
    }

    /// Returns the byte stream between the proxies.
    pub fn channel(&self) -> &C {
        &self.channel
    }

    /// Returns the byte stream between the proxies.
    pub fn channel_mut(&mut self) -> &mut C {
        &mut self.channel
    }

    /// Lets the program write so many bytes beyond what the stream takes while the peer cannot be reached. It has to be polled
    /// whenever that changes.
    pub fn set_hold(&mut self, bytes: usize, budget: &HoldBudget) {
        self.held.set_limit(bytes, budget);
    }

    /// Sets whether both directions wait. It has to be polled afterwards.
    pub fn set_held(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// Returns whether both directions wait.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Returns whether the peer can be reached now.
    pub fn is_reachable(&self) -> bool {
        self.channel.is_reachable()
    }

    /// Returns whether one direction has ended and the other has not.
    pub fn is_half_closed(&self) -> bool {
        (self.hand.out_state == Direction::Done) != (self.hand.back_state == Direction::Done)
    }

    /// Hands on what can be handed on. Ready once the flow has ended, with both ends closed accordingly.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        if let Some(ended) = self.ended {
            return Poll::Ready(ended);
        }
        // A peer that stops what has ended already means nothing by it.
        if let Poll::Ready(broken) = self.channel.poll_stopped(cx)
            && (self.hand.out_state != Direction::Done || broken == Broken::Lost)
        {
            return Poll::Ready(self.end(of_channel(broken)));
        }
        self.channel.poll_upkeep(cx);
        if self.is_held {
            return Poll::Pending;
        }
        let (out, back) = (Self::poll_out(self, cx), Self::poll_back(self, cx));
        let tired = matches!(out, Ok(Step::Tired)) || matches!(back, Ok(Step::Tired));
        if let Some(ended) = out.err().or(back.err()) {
            return Poll::Ready(self.end(ended));
        }
        if (self.hand.out_state, self.hand.back_state) == (Direction::Done, Direction::Done) {
            self.ended = Some(Ended::Finished);
            return Poll::Ready(Ended::Finished);
        }
        if tired {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Reads on until the flow can be taken apart, after [`Channel::settle`]. What comes meanwhile is in hand. Returns how
    /// the flow ended, if it did.
    pub fn poll_settled(&mut self, cx: &mut Context<'_>) -> Poll<Option<Ended>> {
        self.channel.poll_upkeep(cx);
        let (before, mut came): (usize, _) = (self.hand.back.iter().map(Bytes::len).sum(), Vec::new());
        while self.ended.is_none() && self.hand.back_state == Direction::Open && !self.channel.is_settled() {
            if before + self.gathered.len() > MOST_UNREAD {
                break;
            }
            match ready!(self.channel.poll_read(cx, &mut came)) {
                Ok(true) => came.drain(..).for_each(|bytes: Bytes| self.gathered.extend_from_slice(&bytes)),
                Ok(false) => self.hand.back_state = Direction::Ending,
                Err(broken) => return Poll::Ready(Some(self.end(of_channel(broken)))),
            }
        }
        if !self.gathered.is_empty() {
            self.hand.back.push(self.gathered.split().freeze());
        }
        Poll::Ready(self.ended)
    }

    /// Ends the flow, since the program's connection was reset. What it sent is not delivered any more.
    pub fn program_was_reset(&mut self) -> Ended {
        self.ended.unwrap_or_else(|| self.end(Ended::ResetByProgram))
    }

    /// Gives the flow up: both ends are reset.
    pub fn give_up(&mut self, code: u64) -> Ended {
        self.end(Ended::GivenUp(code))
    }

    fn end(&mut self, ended: Ended) -> Ended {
        self.program.reset();
        match ended {
            Ended::GivenUp(code) => self.channel.reset(code),
            _ => self.channel.reset(codes::RESET),
        }
        (self.hand.out, self.hand.back) = (Bytes::new(), Vec::new());
        self.held.clear();
        self.small.clear();
        *self.ended.insert(ended)
    }

    /// From the program to the peer.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Result<Step, Ended> {
        for _ in 0..TURNS {
            while !self.hand.out.is_empty() {
                let before = self.hand.out.len();
                match self.channel.poll_write(cx, &mut self.hand.out) {
                    Poll::Ready(written) => written.map_err(of_channel)?,
                    Poll::Pending => return self.poll_hold(cx),
                }
                self.hand.sent += (before - self.hand.out.len()) as u64;
            }
            if let Some(bytes) = self.held.pop() {
                self.hand.out = bytes;
                continue;
            }
            match self.hand.out_state {
                Direction::Open => match self.program.poll_read(cx) {
                    Poll::Ready(Ok(Some(bytes))) => self.on_read(bytes),
                    Poll::Ready(Ok(None)) => {
                        self.hand.out_state = Direction::Ending;
                        self.hand.out = self.small.split().freeze();
                    }
                    Poll::Ready(Err(_)) => return Err(Ended::ResetByProgram),
                    Poll::Pending if self.small.is_empty() => return Ok(Step::Waits),
                    Poll::Pending => match self.channel.poll_gathered(cx) {
                        Poll::Ready(()) => self.hand.out = self.small.split().freeze(),
                        Poll::Pending => return Ok(Step::Waits),
                    },
                },
                Direction::Ending => {
                    self.channel.finish();
                    self.hand.out_state = Direction::Done;
                }
                Direction::Done => return Ok(Step::Went),
            }
        }
        Ok(Step::Tired)
    }

    /// Takes what the program wrote, at once or together with what it writes soon.
    fn on_read(&mut self, bytes: Bytes) {
        let enough = self.channel.gathers();
        if self.small.is_empty() && bytes.len() >= enough {
            self.hand.out = bytes;
            return;
        }
        self.small.extend_from_slice(&bytes);
        if self.small.len() >= enough {
            self.hand.out = self.small.split().freeze();
        }
    }

    /// Takes more from the program while the peer cannot be reached.
    fn poll_hold(&mut self, cx: &mut Context<'_>) -> Result<Step, Ended> {
        while self.hand.out_state == Direction::Open && self.held.has_room() && !self.channel.is_reachable() {
            match self.program.poll_read(cx) {
                Poll::Ready(Ok(Some(bytes))) => self.held.push(bytes),
                Poll::Ready(Ok(None)) => self.hand.out_state = Direction::Ending,
                Poll::Ready(Err(_)) => return Err(Ended::ResetByProgram),
                Poll::Pending => break,
            }
        }
        Ok(Step::Waits)
    }

    /// From the peer to the program.
    fn poll_back(&mut self, cx: &mut Context<'_>) -> Result<Step, Ended> {
        for _ in 0..TURNS {
            while !self.hand.back.is_empty() {
                let before: usize = self.hand.back.iter().map(Bytes::len).sum();
                match self.program.poll_write(cx, &mut self.hand.back) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Err(Ended::ResetByProgram),
                    Poll::Pending => return Ok(Step::Waits),
                }
                self.hand.received += (before - self.hand.back.iter().map(Bytes::len).sum::<usize>()) as u64;
            }
            match self.hand.back_state {
                Direction::Open => match self.channel.poll_read(cx, &mut self.hand.back) {
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(Ok(false)) => self.hand.back_state = Direction::Ending,
                    Poll::Ready(Err(broken)) => return Err(of_channel(broken)),
                    Poll::Pending => return Ok(Step::Waits),
                },
                Direction::Ending => {
                    self.program.finish();
                    self.hand.back_state = Direction::Done;
                }
                Direction::Done => return Ok(Step::Went),
            }
        }
        Ok(Step::Tired)
    }
}

fn of_channel(broken: Broken) -> Ended {
    match broken {
        Broken::Reset(code) => Ended::ResetByPeer(code),
        Broken::Lost => Ended::SessionLost,
        Broken::Malformed => Ended::GivenUp(codes::PROTOCOL),
    }
}
