//! A certificate for one trial. The other side gets it together with the address, and trusts no other.

use std::net::SocketAddr;

use anyhow::Context;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::hex;

/// The name in the certificate.
pub(super) const NAME: &str = "localhost";

/// Text about the certificate for the settings of its peers.
pub(super) const SETTINGS: &str =
    "one self-signed ECDSA certificate of some 350 bytes, smaller than a public chain; no resumption";

/// Creates a key, and a certificate signed with it.
pub(super) fn new() -> anyhow::Result<(PrivatePkcs8KeyDer<'static>, CertificateDer<'static>)> {
    let identity = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    Ok((PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der()), identity.cert.into()))
}

/// Joins an address and a certificate to one word.
pub(super) fn word(address: SocketAddr, certificate: &[u8]) -> String {
    format!("{address}/{}", hex::digits(certificate))
}

/// Splits a [`word`] into the address and the certificate to trust. It also seeds the random number generator, which
/// takes some 40 ms once per process and must not count as connection set-up.
pub(super) fn split(word: &str) -> anyhow::Result<(SocketAddr, RootCertStore)> {
    let seeded = rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut [0; 32]);
    anyhow::ensure!(seeded.is_ok(), "cannot seed the random number generator");
    let (address, digits) = word.split_once('/').context("no certificate after the address")?;
    let mut roots = RootCertStore::empty();
    roots.add(hex::bytes(digits)?.into())?;
    Ok((address.parse()?, roots))
}
