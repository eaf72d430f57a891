//! TLS for clients of MQTT in a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::error::SettingsError;
use crate::gateway::mqtt::TlsFiles;

/// TLS for clients of MQTT. Relative paths begin at the folder of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSection {
    /// The address and port, such as `0.0.0.0:8883`. Default: none, so that TLS is for WebSocket alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// The file of the broker's certificate and those between it and its authority, in PEM.
    pub certificate: PathBuf,
    /// The file of the private key of the certificate, in PEM.
    pub key: PathBuf,
    /// The file with the certificates of authorities, in PEM: clients with a certificate of theirs are known by it. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// Whether every client needs a certificate. Default: no, so that others connect with a password.
    #[serde(default)]
    pub require_certificate: bool,
}

impl TlsSection {
    /// Has relative paths begin at `folder`.
    pub(super) fn relative_to(&mut self, folder: &Path) {
        let Self { certificate, key, client_ca, .. } = self;
        for path in [certificate, key].into_iter().chain(client_ca) {
            *path = folder.join(&*path);
        }
    }

    pub(super) fn files(&self) -> Result<TlsFiles, SettingsError> {
        if self.require_certificate && self.client_ca.is_none() {
            return Err(SettingsError::MqttNoAuthority);
        }
        Ok(TlsFiles {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_ca: self.client_ca.clone(),
            requires_certificate: self.require_certificate,
        })
    }
}
