//! TLS in both directions: files in PEM, and connections that this broker opens to servers of others.

mod client;
pub(crate) mod pem;

pub use client::ClientTls;

/// A file that cannot be used for TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TlsError {
    /// The setting that names the file, such as `key`.
    pub setting: &'static str,
    /// The mistake, and what to do.
    pub why: String,
}
