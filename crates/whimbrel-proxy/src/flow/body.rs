//! The body of a flow: bytes in both directions, each of which ends by itself (half-close), until both have ended or
//! one end is reset. A reset of either end resets the other, as in TCP.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::ends::{Broken, Channel, Program};
use crate::protocol::codes;

/// How often a direction goes on in one poll before others have a turn.
const TURNS: usize = 16;

/// How a flow ended.
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
    /// From the program to the peer: what was read and is not yet written.
    out: Bytes,
    /// From the peer to the program.
    back: Vec<Bytes>,
    out_state: Direction,
    back_state: Direction,
    sent: u64,
    received: u64,
    ended: Option<Ended>,
}

/// The state of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Open,
    /// The end was read. What was read before is still being written.
    Ending,
    Done,
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
        Self {
            program,
            channel,
            out: Bytes::new(),
            back: Vec::new(),
            out_state: Direction::Open,
            back_state: Direction::Open,
            sent: 0,
            received: 0,
            ended: None,
        }
    }

    /// Bytes of the program that were handed to the stream, and bytes of the peer that were handed to the program.
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent, self.received)
    }

    /// Returns whether the peer can be reached now.
    pub fn is_reachable(&self) -> bool {
        self.channel.is_reachable()
    }

    /// Returns whether one direction has ended and the other has not.
    pub fn is_half_closed(&self) -> bool {
        (self.out_state == Direction::Done) != (self.back_state == Direction::Done)
    }

    /// Hands on what can be handed on. Ready once the flow has ended, with both ends closed accordingly.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        if let Some(ended) = self.ended {
            return Poll::Ready(ended);
        }
        // A peer that stops what has ended already means nothing by it.
        if let Poll::Ready(broken) = self.channel.poll_stopped(cx)
            && (self.out_state != Direction::Done || broken == Broken::Lost)
        {
            return Poll::Ready(self.end(of_channel(broken)));
        }
        let (out, back) = (Self::poll_out(self, cx), Self::poll_back(self, cx));
        let tired = matches!(out, Ok(Step::Tired)) || matches!(back, Ok(Step::Tired));
        if let Some(ended) = out.err().or(back.err()) {
            return Poll::Ready(self.end(ended));
        }
        if (self.out_state, self.back_state) == (Direction::Done, Direction::Done) {
            self.ended = Some(Ended::Finished);
            return Poll::Ready(Ended::Finished);
        }
        if tired {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
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
        (self.out, self.back) = (Bytes::new(), Vec::new());
        *self.ended.insert(ended)
    }

    /// From the program to the peer.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Result<Step, Ended> {
        for _ in 0..TURNS {
            while !self.out.is_empty() {
                let before = self.out.len();
                match self.channel.poll_write(cx, &mut self.out) {
                    Poll::Ready(written) => written.map_err(of_channel)?,
                    Poll::Pending => return Ok(Step::Waits),
                }
                self.sent += (before - self.out.len()) as u64;
            }
            match self.out_state {
                Direction::Open => match self.program.poll_read(cx) {
                    Poll::Ready(Ok(Some(bytes))) => self.out = bytes,
                    Poll::Ready(Ok(None)) => self.out_state = Direction::Ending,
                    Poll::Ready(Err(_)) => return Err(Ended::ResetByProgram),
                    Poll::Pending => return Ok(Step::Waits),
                },
                Direction::Ending => {
                    self.channel.finish();
                    self.out_state = Direction::Done;
                }
                Direction::Done => return Ok(Step::Went),
            }
        }
        Ok(Step::Tired)
    }

    /// From the peer to the program.
    fn poll_back(&mut self, cx: &mut Context<'_>) -> Result<Step, Ended> {
        for _ in 0..TURNS {
            while !self.back.is_empty() {
                let before: usize = self.back.iter().map(Bytes::len).sum();
                match self.program.poll_write(cx, &mut self.back) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Err(Ended::ResetByProgram),
                    Poll::Pending => return Ok(Step::Waits),
                }
                self.received += (before - self.back.iter().map(Bytes::len).sum::<usize>()) as u64;
            }
            match self.back_state {
                Direction::Open => match self.channel.poll_read(cx, &mut self.back) {
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(Ok(false)) => self.back_state = Direction::Ending,
                    Poll::Ready(Err(broken)) => return Err(of_channel(broken)),
                    Poll::Pending => return Ok(Step::Waits),
                },
                Direction::Ending => {
                    self.program.finish();
                    self.back_state = Direction::Done;
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
    }
}
