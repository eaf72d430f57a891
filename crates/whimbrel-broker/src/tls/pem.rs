//! Certificates and keys in PEM files.

use std::path::Path;

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{InconsistentKeys, RootCertStore};

use super::TlsError;

/// The longest file of certificates, bytes.
const LONGEST_FILE: u64 = 1 << 20;

pub(crate) fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
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

pub(crate) fn certificates(
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

pub(crate) fn authorities(setting: &'static str, pem: &[u8], path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(setting, pem, path)? {
        let added = roots.add(certificate);
        added.map_err(|error| TlsError { setting, why: unusable(path, &error) })?;
    }
    Ok(roots)
}

pub(crate) fn unusable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("cannot use {}: {error}", path.display())
}

fn no_items(path: &Path, what: &str) -> String {
    format!("there is no {what} in {}: it begins with a line such as -----BEGIN …-----", path.display())
}

/// The first private key in a file.
pub(crate) fn private_key(
    setting: &'static str,
    pem: &[u8],
    path: &Path,
) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        PemError::NoItemsFound => TlsError { setting, why: no_items(path, "private key") },
        error => TlsError { setting, why: unusable(path, &error) },
    })
}

/// The mistake of a certificate and a key that cannot be used together.
pub(crate) fn refused_pair(error: rustls::Error, certificate: &Path, key: &Path) -> TlsError {
    match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => TlsError {
            setting: "key",
            why: format!(
                "{} is not the key of the certificate {}: name a matching pair",
                key.display(),
                certificate.display()
            ),
        },
        error @ rustls::Error::InvalidCertificate(_) => {
            TlsError { setting: "certificate", why: unusable(certificate, &error) }
        }
        error => TlsError { setting: "key", why: unusable(key, &error) },
    }
}
