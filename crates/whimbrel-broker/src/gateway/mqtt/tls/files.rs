//! Certificates and keys in files.

use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::WebPkiClientVerifier;

use super::{Authority, Current};
use crate::tls::TlsError;
use crate::tls::pem::{authorities, certificates, private_key, read, refused_pair, unusable};

/// The files that TLS needs, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The broker's certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The certificates of authorities whose clients are known by their certificates.
    pub client_ca: Option<PathBuf>,
    /// Whether every client needs a certificate.
    pub requires_certificate: bool,
}

impl TlsFiles {
    pub(super) fn load(&self) -> Result<Current, TlsError> {
        let certificate = read("certificate", &self.certificate)?;
        let key = read("key", &self.key)?;
        let client_ca = self.client_ca.as_deref().map(|path| read("client_ca", path)).transpose()?;
        let provider = Arc::new(default_provider());
        let refused = |setting, why: String| TlsError { setting, why };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused("certificate", error.to_string()))?;
        let builder = match (&client_ca, &self.client_ca) {
            (Some(pem), Some(path)) => {
                let roots = Arc::new(authorities("client_ca", pem, path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier =
                    if self.requires_certificate { verifier } else { verifier.allow_unauthenticated() };
                let verifier =
                    verifier.build().map_err(|error| refused("client_ca", unusable(path, &error)))?;
                builder.with_client_cert_verifier(verifier)
            }
            _ => builder.with_no_client_auth(),
        };
        let chain = certificates("certificate", &certificate, &self.certificate)?;
        let private = private_key("key", &key, &self.key)?;
        let refusal = |error| refused_pair(error, &self.certificate, &self.key);
        let mut config = builder.with_single_cert(chain, private).map_err(refusal)?;
        // Clients resume by a ticket, so that nothing is kept here for those who are away.
        config.ticketer = Ticketer::new().map_err(|error| refused("certificate", error.to_string()))?;
        let parts = [Some(&certificate), Some(&key), client_ca.as_ref()].into_iter().flatten();
        let mut read: Vec<u8> = parts.flat_map(|part| sha256(part)).collect();
        read.push(self.requires_certificate.into());
        let authority = client_ca.as_deref().map(|pem| Authority(sha256(pem)));
        Ok(Current { config: Arc::new(config), read: sha256(&read), authority })
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let whole = digest(&SHA256, bytes);
    std::array::from_fn(|at| whole.as_ref()[at])
}
