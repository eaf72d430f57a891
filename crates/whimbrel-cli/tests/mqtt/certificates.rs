//! Certificates for tests.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// An authority that signs certificates into a folder.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// Makes one, and writes its certificate to `NAME.pem`.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join(format!("{name}.pem")), issuer.pem()).unwrap();
        Self { issuer, folder: folder.to_owned() }
    }

    /// Writes a certificate for these names to `FILE.pem`, and its key to `FILE.key`.
    pub(crate) fn sign(&self, file: &str, common_name: &str, names: &[&str]) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.folder.join(format!("{file}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.folder.join(format!("{file}.key")), key.serialize_pem()).unwrap();
    }
}
