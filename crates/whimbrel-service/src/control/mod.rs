//! The control socket: JSON lines over a Unix socket that only its owner may use.
//!
//! A client writes a [`Request`] as one line, such as `{"request":"status"}`, and reads one line: `{"ok":…}`, or
//! `{"error":"…"}`. More requests may follow.

mod client;
mod server;

use serde::{Deserialize, Serialize};

pub use client::{AskError, ask, take_over};
pub(crate) use server::ControlServer;

/// The longest request, bytes.
const LONGEST_REQUEST: u64 = 4096;

/// A request to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Request {
    /// Returns the state of the service: a [`StatusReport`](crate::StatusReport).
    Status,
    /// Reads the configuration again.
    Reload,
    /// Stops the service gracefully.
    Stop,
    /// Hands the service over: the connection is the service's own from here on. Send it with [`take_over`].
    HandOver,
}

/// One answer line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    Ok(serde_json::Value),
    Error(String),
}
