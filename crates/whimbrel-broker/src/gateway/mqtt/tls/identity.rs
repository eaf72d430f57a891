//! The names in a client's certificate.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::Tls;

/// The most names of one certificate that are looked at.
const MOST_NAMES: usize = 64;
/// The object identifier of a common name, 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// The authority of certificates: a digest of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Authority(pub(super) [u8; 32]);

/// A client as its certificate names it. TLS has verified the certificate.
#[derive(Clone, Debug)]
pub(in super::super) struct Identity {
    /// The common names of its subject, then the DNS names among its alternative names.
    pub(in super::super) names: Vec<String>,
    /// The authority by which it was verified.
    authority: Authority,
    tls: Arc<Tls>,
}

impl Identity {
    pub(super) fn of(certificate: &CertificateDer<'_>, authority: Authority, tls: Arc<Tls>) -> Self {
        Self { names: names(certificate), authority, tls }
    }

    /// Whether its authority is still the one that is trusted.
    pub(in super::super) fn is_trusted(&self) -> bool {
        self.tls.authority() == Some(self.authority)
    }
}

fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(parsed) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    let names = common_names(parsed.subject()).into_iter();
    names.chain(parsed.valid_dns_names().map(str::to_owned)).take(MOST_NAMES).collect()
}

/// The common names of a subject: RFC 5280, 4.1.2.4, without the outer sequence.
fn common_names(mut subject: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((0x31, mut set)) = value(&mut subject) {
        while let Some((0x30, mut pair)) = value(&mut set) {
            // UTF8String, PrintableString and IA5String are all UTF-8.
            if let Some((0x06, kind)) = value(&mut pair)
                && kind == COMMON_NAME
                && let Some((0x0c | 0x13 | 0x16, text)) = value(&mut pair)
                && let Ok(text) = str::from_utf8(text)
            {
                names.push(text.to_owned());
            }
        }
    }
    names
}

/// Takes a value of DER from the front: its tag and its content.
fn value<'a>(from: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, rest) = from.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (u16::from_be_bytes(*length).into(), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *from = rest;
    Some((*tag, content))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn certificate(make: impl FnOnce(&mut rcgen::CertificateParams)) -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(vec!["boat.example".to_owned()]).unwrap();
        make(&mut params);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn common_names_come_before_dns_names() {
        let long = "x".repeat(200);
        let certificate = certificate(|params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(rcgen::DnType::OrganizationName, "harbour");
            params.distinguished_name.push(rcgen::DnType::CommonName, long.as_str());
        });
        assert_eq!(names(&certificate), [long.as_str(), "boat.example"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            common_names(&bytes);
            drop(names(&CertificateDer::from(bytes)));
        }
    }
}
