//! Certificates and keys in files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};

use super::{Authority, Current};

/// The longest file of certificates, bytes.
const LONGEST_FILE: u64 = 1 << 20;

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

/// A file that cannot be used for TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TlsError {
    /// The setting that names the file, such as `key`.
    pub setting: &'static str,
    /// The mistake, and what to do.
    pub why: String,
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
                let roots = Arc::new(authorities(pem, path)?);
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
        let private = PrivateKeyDer::from_pem_slice(&key).map_err(|error| match error {
            PemError::NoItemsFound => refused("key", no_items(&self.key, "private key")),
            error => refused("key", unusable(&self.key, &error)),
        })?;
        let mut config = builder.with_single_cert(chain, private).map_err(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => refused(
                "key",
                format!(
                    "{} is not the key of the certificate {}: name the two that were made together",
                    self.key.display(),
                    self.certificate.display()
                ),
            ),
            error @ rustls::Error::InvalidCertificate(_) => {
                refused("certificate", unusable(&self.certificate, &error))
            }
            error => refused("key", unusable(&self.key, &error)),
        })?;
        // Clients resume by a ticket, so that nothing is kept here for those who are away.
        config.ticketer = Ticketer::new().map_err(|error| refused("certificate", error.to_string()))?;
        let parts = [Some(&certificate), Some(&key), client_ca.as_ref()].into_iter().flatten();
        let mut read: Vec<u8> = parts.flat_map(|part| sha256(part)).collect();
        read.push(self.requires_certificate.into());
        let authority = client_ca.as_deref().map(|pem| Authority(sha256(pem)));
        Ok(Current { config: Arc::new(config), read: sha256(&read), authority })
    }
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let size = std::fs::metadata(path).map(|file| file.len());
    let whole =
        size.and_then(|size| if size > LONGEST_FILE { Ok(None) } else { std::fs::read(path).map(Some) });
    let name = path.display();
    match whole {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(TlsError { setting, why: format!("{name} has more than 1 MiB: name a file in PEM") }),
        Err(error) => {
            Err(TlsError { setting, why: format!("cannot read {name}: {error}; name a file in PEM") })
        }
    }
}

fn certificates(
    setting: &'static str,
    pem: &[u8],
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| TlsError { setting, why: unusable(path, &error) })?;
    if all.is_empty() {
        return Err(TlsError { setting, why: no_items(path, "certificate") });
    }
    Ok(all)
}

fn authorities(pem: &[u8], path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("client_ca", pem, path)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError { setting: "client_ca", why: unusable(path, &error) })?;
    }
    Ok(roots)
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("cannot use {}: {error}", path.display())
}

fn no_items(path: &Path, what: &str) -> String {
    format!("there is no {what} in {}: it begins with a line such as -----BEGIN …-----", path.display())
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let whole = digest(&SHA256, bytes);
    std::array::from_fn(|at| whole.as_ref()[at])
}
