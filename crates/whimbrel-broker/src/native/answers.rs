//! The answers to what a client published, in the order of its numbers.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use whimbrel_pubsub::frame::{BrokerFrame, Credit, Refusal};
use whimbrel_pubsub::message::Hlc;

use crate::hub::Storing;
use crate::share::Charge;

/// Answers that are given, or wait for the disk. Those that are taken are told in ranges.
#[derive(Debug, Default)]
pub(super) struct Answers {
    waiting: VecDeque<Answer>,
    bytes: usize,
}

#[derive(Debug)]
struct Answer {
    number: u64,
    bytes: usize,
    /// Its part of its client's share.
    _charge: Option<Charge>,
    outcome: Outcome,
}

#[derive(Debug)]
enum Outcome {
    Storing(Storing, Hlc),
    Known(Result<Hlc, Refusal>),
}

impl Answers {
    /// A message of so many bytes was taken at `published`, and may still have to be stored.
    pub(super) fn taken(
        &mut self,
        number: u64,
        (bytes, charge): (usize, Option<Charge>),
        storing: Storing,
        published: Hlc,
    ) {
        self.push(Answer { number, bytes, _charge: charge, outcome: Outcome::Storing(storing, published) });
    }

    pub(super) fn refused(&mut self, number: u64, refusal: Refusal) {
        self.push(Answer { number, bytes: 0, _charge: None, outcome: Outcome::Known(Err(refusal)) });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a client with this credit has published too much without an answer, `more` messages of so many bytes beside.
    pub(super) fn exceed(&self, credit: Credit, more: usize, bytes: usize) -> bool {
        let (messages, bytes) = (self.waiting.len() + more, self.bytes + bytes);
        messages > credit.messages as usize || messages > 1 && bytes > credit.bytes as usize
    }

    /// Waits for the first, and takes all that are known then. Dropping it loses none.
    pub(super) async fn next(&mut self) -> Vec<Bytes> {
        poll_fn(|cx| match self.poll(cx) {
            frames if frames.is_empty() => Poll::Pending,
            frames => Poll::Ready(frames),
        })
        .await
    }

    /// Takes those at the front that are known. Whoever asks is woken for the next.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Vec<Bytes> {
        let mut frames = Frames::default();
        while let Some(front) = self.waiting.front_mut() {
            if let Outcome::Storing(storing, published) = &mut front.outcome {
                let Poll::Ready(stored) = Pin::new(storing).poll(cx) else { break };
                front.outcome = Outcome::Known(stored.map(|()| *published));
            }
            let Some(Answer { number, bytes, outcome: Outcome::Known(known), .. }) = self.waiting.pop_front()
            else {
                break;
            };
            self.bytes -= bytes;
            match known {
                Ok(published) => frames.taken(number, published),
                Err(refusal) => frames.refused(number, refusal),
            }
        }
        frames.close();
        frames.all
    }

    fn push(&mut self, answer: Answer) {
        self.bytes += answer.bytes;
        self.waiting.push_back(answer);
    }
}

/// Frames with answers, the usual ones in ranges.
#[derive(Default)]
struct Frames {
    taken: Option<(u64, u64, Hlc)>,
    all: Vec<Bytes>,
}

impl Frames {
    fn taken(&mut self, number: u64, latest: Hlc) {
        let first = self.taken.map_or(number, |(first, ..)| first);
        self.taken = Some((first, number, latest));
    }

    fn refused(&mut self, number: u64, refusal: Refusal) {
        self.close();
        self.all.push(BrokerFrame::Refused(number, refusal).encode());
    }

    fn close(&mut self) {
        if let Some((first, last, latest)) = self.taken.take() {
            self.all.push(BrokerFrame::Published { first, last, latest }.encode());
        }
    }
}
