//! MQTT over WebSocket in a file.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::super::error::SettingsError;
use crate::gateway::mqtt::WebSocket;

/// MQTT over WebSocket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebSocketSection {
    /// The address and port for `ws://`, such as `127.0.0.1:8083`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// The address and port for `wss://`, with the certificate of `[mqtt.tls]`. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_address: Option<SocketAddr>,
    /// The path. Default: `/mqtt`.
    pub path: String,
    /// The origins of pages that may connect without a password, such as `https://app.example`; `*` is any. Default: those of the same host.
    pub origins: Vec<String>,
}

impl Default for WebSocketSection {
    fn default() -> Self {
        Self { address: None, tls_address: None, path: "/mqtt".to_owned(), origins: Vec::new() }
    }
}

impl WebSocketSection {
    pub(super) fn websocket(&self) -> Result<WebSocket, SettingsError> {
        if !self.path.starts_with('/') || self.path.contains(['?', '#', ' ']) {
            return Err(SettingsError::MqttPath(self.path.clone()));
        }
        Ok(WebSocket { path: self.path.clone(), origins: self.origins.clone() })
    }
}
