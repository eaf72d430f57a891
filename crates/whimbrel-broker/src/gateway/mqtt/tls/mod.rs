//! TLS for clients of MQTT: the broker's certificate, and certificates of clients.

mod files;
mod identity;

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub use crate::tls::TlsError;
pub use files::TlsFiles;
pub(super) use identity::{Authority, Identity};

/// The certificates in use. They may be replaced while clients are connected.
pub struct Tls(RwLock<Current>);

#[derive(Clone)]
struct Current {
    config: Arc<ServerConfig>,
    /// A digest of everything that was read.
    read: [u8; 32],
    /// The authority whose clients are known by their certificates.
    authority: Option<Authority>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be read or used, or the key is another certificate's. The error names the setting.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        files.load().map(|current| Self(RwLock::new(current)))
    }

    /// Uses other certificates from the next connection on. If the files have not changed, clients still resume their TLS sessions.
    pub fn replace(&self, other: &Self) {
        let other = other.current();
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if current.read != other.read {
            *current = other;
        }
    }

    /// The authority whose clients are known by their certificates, if there is one.
    pub(super) fn authority(&self) -> Option<Authority> {
        self.current().authority
    }

    /// Shakes hands with a client. Returns its identity, if it has a certificate.
    pub(super) async fn accept<S>(self: &Arc<Self>, stream: S) -> io::Result<(TlsStream<S>, Option<Identity>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Current { config, authority, .. } = self.current();
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let identity = certificate.zip(authority);
        let identity =
            identity.map(|(certificate, authority)| Identity::of(certificate, authority, Arc::clone(self)));
        Ok((stream, identity))
    }

    fn current(&self) -> Current {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
