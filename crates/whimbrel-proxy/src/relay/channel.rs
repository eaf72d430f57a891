//! A byte stream of a session, as a flow sees it.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};
use whimbrel::StreamId;

use super::bond::Bond;
use super::caps::Capped;
use super::gathering::Gathering;
use super::refused::Refused;
use crate::connector::{Failure, Link, Stream, StreamReader, StreamWriter};
use crate::flow::compressed::Paused;
use crate::flow::{Broken, Channel};
use crate::protocol::{Agreement, Answer, AnswerReader, Cap, Datagram, Manner, Outcome, codes};

/// The most bytes and pieces gathered for one write to the program.
const MOST: usize = 256 * 1024;
const PIECES: usize = 64;
/// The priority of a stream that has none of its own.
const DEFAULT_PRIORITY: u8 = 100;

/// A byte stream of a session.
#[derive(Debug)]
pub(crate) struct StreamChannel {
    link: Link,
    reader: StreamReader,
    writer: StreamWriter,
    answer: Awaited,
    priority: Option<u8>,
    cap: Option<Capped>,
    gathering: Option<Gathering>,
    bond: Arc<Bond>,
    /// Whether this end has opened the stream, so that the peer follows its priority.
    is_opener: bool,
}

/// The state that a byte stream of a flow has beyond its session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) stream: u64,
    answer: Option<Vec<u8>>,
    priority: Option<u8>,
    #[serde(default)]
    cap: Option<Cap>,
    #[serde(default)]
    gather: Option<Duration>,
    pub(crate) is_opener: bool,
    /// How it is compressed, if it is.
    pub(crate) paused: Option<Paused>,
}

/// The far end's answer, which comes before the first byte of its program.
#[derive(Debug)]
enum Awaited {
    /// It is there, or this is the far end.
    Nothing,
    Answer(AnswerReader),
    /// There will be no bytes.
    Refused(Refused),
}

impl StreamChannel {
    /// A stream of the peer, whose next bytes are the program's.
    pub(crate) fn accepted(link: Link, stream: Stream, manner: Manner, bond: &Arc<Bond>) -> Self {
        let (reader, mut writer) = stream.into_split();
        let (priority, bond) = (manner.priority, Arc::clone(bond));
        if let Some(priority) = priority {
            writer.set_priority(priority);
        }
        let cap = manner.cap.map(|cap| bond.caps.under(cap));
        let gathering = Gathering::new(manner.gather);
        Self {
            link,
            reader,
            writer,
            answer: Awaited::Nothing,
            priority,
            cap,
            gathering,
            bond,
            is_opener: false,
        }
    }

    /// A stream that this end has opened, whose first bytes are the far end's answer.
    pub(crate) fn opened(link: Link, stream: Stream, manner: Manner, bond: &Arc<Bond>) -> Self {
        let answer = Awaited::Answer(AnswerReader::default());
        Self { answer, is_opener: true, ..Self::accepted(link, stream, manner, bond) }
    }

    /// A stream of a session that was resumed. `answer`: what there is of the far end's answer, if that is not whole.
    pub(super) fn resumed(link: Link, stream: Stream, saved: &Saved, bond: &Arc<Bond>) -> Self {
        let answer = match &saved.answer {
            Some(begun) => Awaited::Answer(AnswerReader::begun(begun)),
            None => Awaited::Nothing,
        };
        let is_opener = saved.is_opener;
        let Saved { priority, cap, gather, .. } = *saved;
        let manner = Manner { priority, cap, gather, ..Manner::default() };
        Self { answer, is_opener, ..Self::accepted(link, stream, manner, bond) }
    }

    /// Returns what is not part of the session, with the compression if it is compressed. The session keeps the rest, so it
    /// must be suspended next.
    pub(super) fn save(&self, paused: Option<Paused>) -> Saved {
        let answer = match &self.answer {
            Awaited::Answer(reader) => Some(reader.bytes().to_vec()),
            Awaited::Nothing | Awaited::Refused(_) => None,
        };
        let (stream, priority, is_opener) = (self.reader.id().0, self.priority, self.is_opener);
        let gather = self.gathering.as_ref().map(Gathering::wait);
        Saved { stream, answer, priority, cap: self.cap(), gather, is_opener, paused }
    }

    /// Returns the priority, and the cap.
    pub(super) fn steered(&self) -> (Option<u8>, Option<Cap>) {
        (self.priority, self.cap())
    }

    fn cap(&self) -> Option<Cap> {
        self.cap.as_ref().map(Capped::cap)
    }

    /// Tells the peer of something about this stream.
    fn tell(&self, message: &Datagram) {
        // It is reliable. If too much waits already, the other direction stays as it was.
        self.link.sure_messages().try_send(message.to_bytes());
    }

    /// Asks the peer for a new context.
    pub(super) fn ask_for_restart(&self) {
        // If too much waits already, the flow does not settle in time.
        self.tell(&Datagram::Restart(self.reader.id().0));
    }

    pub(super) fn id(&self) -> StreamId {
        self.reader.id()
    }

    /// The session that the stream belongs to.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Returns why the far end has refused the flow, if it has.
    pub(crate) fn refused(&self) -> Option<Refused> {
        match self.answer {
            Awaited::Refused(refused) => Some(refused),
            Awaited::Nothing | Awaited::Answer(_) => None,
        }
    }

    /// Reads the answer. Later it says only that the far end is connected.
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answer, Refused>> {
        let answer = match &mut self.answer {
            Awaited::Nothing => Ok(Answer::of(Outcome::Connected)),
            Awaited::Refused(refused) => Err(*refused),
            Awaited::Answer(reader) => match ready!(poll_answer(&mut self.reader, reader, cx)) {
                Ok(answer @ Answer { outcome: Outcome::Connected, .. }) => Ok(answer),
                Ok(refusal) => Err(Refused::ByPeer(refusal.outcome)),
                Err(refused) => Err(refused),
            },
        };
        self.answer = match answer {
            Ok(_) => Awaited::Nothing,
            Err(refused) => Awaited::Refused(refused),
        };
        if answer == Err(Refused::Malformed) {
            self.reset(codes::PROTOCOL);
        }
        Poll::Ready(answer)
    }

    /// A far end that refuses a flow also stops its stream. Its answer, which says why, is read before the stream ends here.
    fn poll_why(&mut self, broken: Broken, cx: &mut Context<'_>) -> Poll<Broken> {
        if matches!((broken, &self.answer), (Broken::Reset(_), Awaited::Answer(_))) {
            // What it says is kept.
            ready!(self.poll_answer(cx)).ok();
        }
        Poll::Ready(broken)
    }
}

fn poll_answer(
    stream: &mut StreamReader,
    reader: &mut AnswerReader,
    cx: &mut Context<'_>,
) -> Poll<Result<Answer, Refused>> {
    loop {
        let bytes = match ready!(stream.poll_bytes(cx, reader.wants())) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Poll::Ready(Err(Refused::Malformed)),
            Err(_) => return Poll::Ready(Err(Refused::NoSession)),
        };
        match reader.take(&bytes) {
            Ok(None) => {}
            Ok(Some(answer)) => return Poll::Ready(Ok(answer)),
            Err(_) => return Poll::Ready(Err(Refused::Malformed)),
        }
    }
}

fn broken(failure: Failure) -> Broken {
    match failure {
        Failure::Reset(code) | Failure::Stopped(code) => Broken::Reset(code),
        Failure::Ended => Broken::Reset(codes::RESET),
        Failure::Over => Broken::Lost,
    }
}

impl Channel for StreamChannel {
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        match ready!(self.poll_answer(cx)) {
            Ok(Answer { agreement: Agreement::Plain, .. }) => {}
            // Who asks for compression reads the answer first.
            Ok(_) => {
                self.answer = Awaited::Refused(Refused::Malformed);
                return Poll::Ready(Err(Broken::Malformed));
            }
            Err(_) => return Poll::Ready(Err(Broken::Reset(codes::RESET))),
        }
        let mut gathered = 0;
        while gathered < MOST && bytes.len() < PIECES {
            match self.reader.poll_bytes(cx, MOST - gathered) {
                Poll::Ready(Ok(Some(piece))) => {
                    gathered += piece.len();
                    bytes.push(piece);
                }
                // What came before goes first. The end is read again.
                Poll::Ready(_) | Poll::Pending if !bytes.is_empty() => break,
                Poll::Ready(Ok(None)) => return Poll::Ready(Ok(false)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(broken(error))),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(true))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        if let Some(gathering) = &mut self.gathering {
            gathering.on_written();
        }
        let Some(cap) = &mut self.cap else {
            return match ready!(self.writer.poll_bytes(cx, bytes)) {
                Ok(taken) => {
                    bytes.advance(taken);
                    Poll::Ready(Ok(()))
                }
                Err(error) => self.poll_why(broken(error), cx).map(Err),
            };
        };
        let granted = ready!(cap.poll_take(cx, bytes.len()));
        let written = self.writer.poll_bytes(cx, &bytes.slice(..granted));
        let taken = if let Poll::Ready(Ok(taken)) = written { taken } else { 0 };
        cap.give_back(granted - taken);
        bytes.advance(taken);
        match ready!(written) {
            Ok(_) => Poll::Ready(Ok(())),
            Err(error) => self.poll_why(broken(error), cx).map(Err),
        }
    }

    fn gathers(&self) -> usize {
        self.gathering.as_ref().map_or(0, Gathering::enough)
    }

    fn poll_gathered(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.gathering.as_mut().map_or(Poll::Ready(()), |gathering| gathering.poll(cx))
    }

    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<Broken> {
        match ready!(self.writer.poll_stopped(cx)) {
            Ok(Some(code)) => self.poll_why(Broken::Reset(code), cx),
            // Everything was delivered.
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(broken(error)),
        }
    }

    fn is_reachable(&self) -> bool {
        self.link.is_reachable()
    }

    fn set_priority(&mut self, priority: Option<u8>) {
        if self.priority == priority {
            return;
        }
        self.priority = priority;
        self.writer.set_priority(priority.unwrap_or(DEFAULT_PRIORITY));
        if self.is_opener {
            self.tell(&Datagram::Priority(self.reader.id().0, priority));
        }
    }

    fn set_cap(&mut self, cap: Option<Cap>) {
        if self.cap() == cap {
            return;
        }
        self.cap = cap.map(|cap| self.bond.caps.under(cap));
        if self.is_opener && self.bond.peer().caps {
            self.tell(&Datagram::Cap(self.reader.id().0, cap));
        }
    }

    fn finish(&mut self) {
        self.writer.finish();
    }

    fn reset(&mut self, code: u64) {
        self.writer.reset(code);
        self.reader.stop(code);
    }
}
