//! TLS of connections that this broker opens.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};

use super::TlsError;
use super::pem::{authorities, certificates, private_key, read, refused_pair};

/// The files by which a server is known to this broker, and this broker to the server, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTls {
    /// The certificates of authorities that sign servers' certificates. `None`: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The certificate that the server is shown, with those between it and its authority, and its private key.
    pub own: Option<(PathBuf, PathBuf)>,
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be used. The error names the setting `ca`, `certificate` or `key`.
    pub fn load(&self) -> Result<ClientConfig, TlsError> {
        let roots = match &self.ca {
            Some(path) => authorities("ca", &read("ca", path)?, path)?,
            None => trusted_by_the_system()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError { setting: "ca", why: error.to_string() })?
            .with_root_certificates(roots);
        let Some((certificate, key)) = &self.own else { return Ok(builder.with_no_client_auth()) };
        let chain = certificates("certificate", &read("certificate", certificate)?, certificate)?;
        let private = private_key("key", &read("key", key)?, key)?;
        builder.with_client_auth_cert(chain, private).map_err(|error| refused_pair(error, certificate, key))
    }
}

fn trusted_by_the_system() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let why = "the system trusts no certificate authority: set `ca` to the file with that of the server";
        return Err(TlsError { setting: "ca", why: why.to_owned() });
    }
    Ok(roots)
}
