//! The receiving half of a session with another broker.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use whimbrel::Mocket;
use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::{ChannelId, Origin};

use super::super::frame::MeshFrame;
use super::super::taking::{message_frames, take_messages};
use super::super::traffic::Traffic;
use super::core::Mesh;
use super::link::{HELLO, Meeting};
use crate::buffer::{GapAnswer, GapRequest};
use crate::hub::{Dug, Finding, Hub, Word};

/// The most messages that are taken before others get their turn.
const BATCH: usize = 256;
/// How long the other broker may be silent: it tells what it knows twice a second.
const SILENCE: Duration = Duration::from_secs(15);
/// Closing a session whose broker is silent.
const SILENT: u64 = 0;
/// The most words that wait to be kept. Then nothing more is read until the disk has taken them: it waits for nobody.
const MOST_WORDS: usize = 256;
/// The most questions to the log that wait. A further one is passed over, and asked again later.
const MOST_QUESTIONS: usize = 4;

/// The other broker and what is done with its frames.
pub(super) struct Taking<'a> {
    mesh: &'a Arc<Mesh>,
    traffic: &'a Traffic,
    /// Its run.
    by: Origin,
    finding: Finding,
    answers: mpsc::Sender<Vec<Bytes>>,
    words: mpsc::Sender<Word>,
    questions: mpsc::Sender<Question>,
    meeting: Meeting,
}

/// A question that the buffer did not answer wholly.
struct Question {
    channel: ChannelId,
    origin: Origin,
    /// The messages that are not in the buffer any more.
    gone: Vec<Range>,
    absent: Vec<Range>,
}

/// Takes frames until the session ends. Fails if the other broker does what none should.
pub(super) async fn run(
    mesh: &Arc<Mesh>,
    mocket: &Mocket,
    traffic: &Traffic,
    by: Origin,
    answers: mpsc::Sender<Vec<Bytes>>,
    meeting: Meeting,
) -> Result<(), String> {
    let (words, waiting) = mpsc::channel(MOST_WORDS);
    let (questions, asked) = mpsc::channel(MOST_QUESTIONS);
    let dug = answers.clone();
    let taking =
        Taking { mesh, traffic, by, finding: Finding::default(), answers, words, questions, meeting };
    tokio::select! {
        ended = taking.run(mocket) => ended,
        () = keep(&mesh.hub, by, waiting) => Ok(()),
        () = dig(&mesh.hub, by, asked, dug) => Ok(()),
    }
}

impl Taking<'_> {
    async fn run(mut self, mocket: &Mocket) -> Result<(), String> {
        let mut received = Vec::new();
        let until = Instant::now() + HELLO;
        loop {
            if !self.meeting.is_over() && Instant::now() >= until {
                return Err("it did not introduce itself".to_owned());
            }
            match timeout(SILENCE, mocket.recv_many(&mut received, BATCH)).await {
                Ok(Ok(_)) => {}
                Ok(Err(_)) => return Ok(()),
                Err(_) => {
                    mocket.abort(SILENT, "the broker is silent");
                    return Err(format!("the other broker was silent for {} s", SILENCE.as_secs()));
                }
            }
            for message in received.drain(..) {
                match MeshFrame::parse(&message.payload) {
                    Some(MeshFrame::Introduction(theirs)) => self.meeting.meet(self.mesh, theirs)?,
                    // What overtook the introduction is asked for again.
                    Some(_) if !self.meeting.is_over() => {}
                    Some(MeshFrame::Word(word)) => drop(self.words.send(word).await),
                    Some(frame) => self.take(frame)?,
                    None => return Err("it sent something that is not a frame of this version".to_owned()),
                }
            }
        }
    }

    fn take(&mut self, frame: MeshFrame) -> Result<(), String> {
        let hub = &self.mesh.hub;
        if frame.channel().is_some_and(|channel| !self.meeting.has(channel)) {
            return Err("it names a channel that is not shared with it".to_owned());
        }
        match frame {
            MeshFrame::Messages(channel, messages) => {
                take_messages(hub, (self.by, self.traffic), channel, messages, &mut self.finding)?;
            }
            MeshFrame::Heads(channel, heads) => hub.handle_heads(channel, self.by, &heads),
            MeshFrame::Request(channel, origin, ranges) => self.answer(channel, origin, ranges)?,
            MeshFrame::Denials(channel, origin, gone, absent) => {
                let by = self.by;
                let answer = GapAnswer { by, messages: Vec::new(), gone, absent };
                hub.handle_denials(channel, origin, &answer);
            }
            MeshFrame::Stored(channel, origin, ranges) => {
                hub.handle_stored(self.by.broker, channel, origin, &ranges);
            }
            MeshFrame::Confirm(channel, origin, ranges) => {
                let stored = hub.stored_among(channel, origin, &ranges);
                if !stored.is_empty() {
                    // Without room, it is asked again.
                    let frame = MeshFrame::Stored(channel, origin, stored).encode();
                    drop(self.answers.try_send(vec![frame]));
                }
            }
            MeshFrame::Hello(_) => return Err("it said hello twice".to_owned()),
            MeshFrame::Introduction(_) | MeshFrame::Word(_) => {}
        }
        Ok(())
    }

    /// Answers from the buffer, or has the log looked into. Without room for the answer, nothing is looked up.
    fn answer(&self, channel: ChannelId, origin: Origin, ranges: Vec<Range>) -> Result<(), String> {
        let hub = &self.mesh.hub;
        let Ok(room) = self.answers.try_reserve() else { return Ok(()) };
        let request = GapRequest { to: hub.name().broker, origin, ranges };
        let Some(GapAnswer { messages, gone, absent, .. }) = hub.answer(channel, &request) else {
            return Err("it asked for a channel that this broker does not have".to_owned());
        };
        let mut frames = message_frames(channel, messages);
        if gone.is_empty() || !hub.has_log(channel) {
            // In order: what is denied is what did not come before.
            frames.push(MeshFrame::Denials(channel, origin, gone, absent).encode());
        } else {
            drop(self.questions.try_send(Question { channel, origin, gone, absent }));
        }
        if !frames.is_empty() {
            room.send(frames);
        }
        Ok(())
    }
}

/// Keeps what the other broker tells about durable subscriptions, as long as it is asked to.
async fn keep(hub: &Arc<Hub>, by: Origin, mut words: mpsc::Receiver<Word>) {
    let mut some = Vec::new();
    while words.recv_many(&mut some, MOST_WORDS).await > 0 {
        if hub.learn(by.broker, std::mem::take(&mut some)).await.is_err() {
            // What comes meanwhile is told again, too.
            let pause = tokio::time::sleep(Hub::LEARN_AGAIN);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    word = words.recv() => if word.is_none() {
                        return;
                    },
                }
            }
        }
    }
    std::future::pending().await
}

/// Answers from logs, one question at a time, as long as there are questions.
async fn dig(
    hub: &Arc<Hub>,
    by: Origin,
    mut questions: mpsc::Receiver<Question>,
    answers: mpsc::Sender<Vec<Bytes>>,
) {
    while let Some(Question { channel, origin, gone, absent }) = questions.recv().await {
        let Ok(Dug { messages, gone }) = hub.dig_for(by.broker, channel, origin, gone).await else {
            continue;
        };
        let mut frames = message_frames(channel, messages);
        frames.push(MeshFrame::Denials(channel, origin, gone, absent).encode());
        if answers.send(frames).await.is_err() {
            return;
        }
    }
    std::future::pending().await
}
