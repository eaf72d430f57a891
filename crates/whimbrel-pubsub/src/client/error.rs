//! Why a client gives up.

use crate::frame::Refusal;
use crate::message::MessageError;

/// Why a client has given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No broker was reached within the time that it may take.
    #[error("no broker answers: {0}")]
    NoBroker(String),
    /// The broker speaks another version.
    #[error("{broker} is not a broker of this version: {why}")]
    NotUnderstood {
        /// Its URL.
        broker: String,
        /// The broker's breach of the protocol.
        why: String,
    },
    /// All handles were dropped, or its runtime ended.
    #[error("the client was stopped")]
    Stopped,
}

/// Why a message was not published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// It cannot be published as it is.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The broker refuses it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The client has given up.
    #[error(transparent)]
    Client(#[from] ClientError),
}
