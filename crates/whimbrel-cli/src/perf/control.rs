//! What the two ends of a measurement tell each other: JSON in messages of their own protocol identifier.

use serde::{Deserialize, Serialize};
use whimbrel::{Message, Mocket, SendError, Sender, Service};

use super::clock::ClockMark;
use super::figures::{Interval, Received, Sent};
use super::plan::Plan;

/// Payload protocol identifiers of what is not the load itself.
pub(super) const CONTROL: u32 = 1;
/// Small urgent messages of mixed mode.
pub(super) const URGENT: u32 = 2;
/// A message of the load on its way back.
pub(super) const ECHO: u32 = 3;

/// Version of these messages.
pub(super) const VERSION: u32 = 2;

/// One of them.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Control {
    /// The first from whoever connected.
    Start(Start),
    /// The listener's answer.
    Hello {
        /// Both ends read one clock.
        one_clock: bool,
    },
    /// How it goes, from the sink, once a second.
    Progress(Interval),
    /// Everything is sent and its fate known; or the source was told to stop.
    Done(Sent),
    /// The sink has enough.
    Stop,
    /// The sink's figures: the end.
    Report(Received),
}

/// What is to be done, and since when.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Start {
    pub(super) version: u32,
    pub(super) plan: Plan,
    /// Which clock stamps are of, if that can be known.
    pub(super) clock: Option<ClockMark>,
    /// When connecting began, by that clock.
    pub(super) connect_ns: u64,
    /// How long ago that was when this was sent.
    pub(super) elapsed_ns: u64,
}

/// Sends control messages, ahead of all else.
pub(super) struct ControlSender(Sender);

impl ControlSender {
    pub(super) fn new(mocket: &Mocket) -> Self {
        Self(mocket.sender().service(Service::ReliableSequenced).priority(255).ppid(CONTROL).build())
    }

    pub(super) async fn send(&self, control: &Control) -> Result<(), SendError> {
        // Serialising plain data into memory does not fail.
        self.0.send(serde_json::to_vec(control).unwrap_or_default()).await
    }
}

/// Reads a control message; None if it is something else. What makes no sense is an error.
pub(super) fn parse(message: &Message) -> Option<Result<Control, serde_json::Error>> {
    (message.ppid == Some(CONTROL)).then(|| serde_json::from_slice(&message.payload))
}
