//! The control socket: lines of JSON over a Unix socket that only its owner may use.
//!
//! A client writes a [`Request`] as one line, such as `{"request":"status"}`, and reads one line: `{"ok":…}`, or `{"error":"…"}`. It may
//! go on with further requests.

mod client;
mod server;

use serde::{Deserialize, Serialize};

pub use client::{AskError, ask};
pub(crate) use server::ControlServer;

/// The longest request, bytes.
const LONGEST_REQUEST: u64 = 4096;

/// What can be asked of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Request {
    /// What it does: a [`crate::StatusReport`].
    Status,
    /// Reads its configuration again.
    Reload,
    /// Ends in order.
    Stop,
}

/// One line back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Ok(serde_json::Value),
    Error(String),
}
