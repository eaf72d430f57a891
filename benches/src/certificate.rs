//! A certificate for one run. The client receives it with the address, and trusts no other.

use std::net::SocketAddr;

use anyhow::Context;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// Generates a key and a certificate for `localhost` signed with it.
pub(crate) fn identity() -> anyhow::Result<(PrivatePkcs8KeyDer<'static>, CertificateDer<'static>)> {
    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    Ok((PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der()), identity.cert.into()))
}

/// Returns a server's address and certificate as one word.
pub(crate) fn address(addr: SocketAddr, certificate: &[u8]) -> String {
    let hex: String = certificate.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{addr}/{hex}")
}

/// Splits a word made by [`address`]. Returns the server's address and a store that trusts only its certificate.
pub(crate) fn split(address: &str) -> anyhow::Result<(SocketAddr, RootCertStore)> {
    let (addr, hex) = address.split_once('/').context("no certificate in the address")?;
    let digits = hex.as_bytes().chunks(2);
    let bytes: Result<Vec<u8>, _> =
        digits.map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16)).collect();
    let mut roots = RootCertStore::empty();
    roots.add(bytes?.into())?;
    Ok((addr.parse()?, roots))
}
