//! The control messages between the two ends of a measurement: JSON under a protocol identifier of its own.

use serde::{Deserialize, Serialize};
use whimbrel::{Message, Mocket, SendError, Sender, Service};

use super::clock::ClockMark;
use super::figures::{Interval, Received, Sent};
use super::plan::Plan;

/// The payload protocol identifier of control messages.
pub(super) const CONTROL: u32 = 1;
/// The identifier of the small urgent messages of mixed mode.
pub(super) const URGENT: u32 = 2;
/// The identifier of load messages on their way back.
pub(super) const ECHO: u32 = 3;

/// The version of these messages.
pub(super) const VERSION: u32 = 2;

/// A control message.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Control {
    /// The first message of the connecting end.
    Start(Start),
    /// The listener's answer.
    Hello {
        /// Whether both ends read one clock.
        one_clock: bool,
    },
    /// The sink's progress, once a second.
    Progress(Interval),
    /// Everything was sent and its fate is known, or the source was told to stop.
    Done(Sent),
    /// The sink wants no more.
    Stop,
    /// The sink's figures, which end the measurement.
    Report(Received),
}

/// The plan of the measurement, and when it began.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Start {
    pub(super) version: u32,
    pub(super) plan: Plan,
    /// The clock of the stamps, if it can be determined.
    pub(super) clock: Option<ClockMark>,
    /// When connecting began, by that clock.
    pub(super) connect_ns: u64,
    /// How long before the sending of this message that was.
    pub(super) elapsed_ns: u64,
}

/// Sends control messages ahead of everything else.
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

/// Parses a control message. Returns `None` for another kind of message, and an error for an invalid one.
pub(super) fn parse(message: &Message) -> Option<Result<Control, serde_json::Error>> {
    (message.ppid == Some(CONTROL)).then(|| serde_json::from_slice(&message.payload))
}
