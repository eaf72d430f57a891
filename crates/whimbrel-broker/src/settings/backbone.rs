//! The backbone of a cluster in a file, if it is not links between brokers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::ServerAddr;
use serde::{Deserialize, Serialize};
use whimbrel::units::as_text;

use super::error::SettingsError;
use super::secret::Secret;
use crate::backbone::{NatsAccess, NatsPlan};
use crate::tls::ClientTls;

/// The backbone of a cluster whose brokers have no links of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BackboneSection {
    /// Servers of NATS that carry everything between brokers. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nats: Option<NatsSection>,
}

/// A NATS cluster between the brokers. Relative paths begin at the folder of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NatsSection {
    /// The servers, such as `nats://nats1.example:4222`, or `tls://…`.
    #[serde(with = "servers")]
    pub servers: Vec<ServerAddr>,
    /// The user, with a password. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// A token in place of a user. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// The file with the seed of an nkey, in place of a user. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nkey: Option<PathBuf>,
    /// A file of credentials, in place of a user. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// The file with the certificates of authorities that sign the servers' certificates, in PEM. Default: the authorities that the system trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The file of the certificate that the servers are shown, in PEM. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The file of its private key, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The time for which a silent broker still counts as one that may have missing messages. Default: 24 h.
    #[serde(default = "forget_after", with = "as_text::duration")]
    pub forget_after: Duration,
}

fn forget_after() -> Duration {
    Duration::from_secs(86_400)
}

impl BackboneSection {
    /// Has relative paths begin at `folder`.
    pub fn relative_to(&mut self, folder: &Path) {
        let Some(NatsSection { nkey, credentials, ca, certificate, key, .. }) = &mut self.nats else {
            return;
        };
        for path in [nkey, credentials, ca, certificate, key].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }

    /// How the servers of NATS are reached, if there are any.
    pub(super) fn nats(&self) -> Result<Option<NatsPlan>, SettingsError> {
        self.nats.as_ref().map(NatsSection::plan).transpose()
    }
}

impl NatsSection {
    fn plan(&self) -> Result<NatsPlan, SettingsError> {
        if self.servers.is_empty() {
            return Err(SettingsError::NatsNoServers);
        }
        Ok(NatsPlan {
            servers: self.servers.clone(),
            access: self.access()?,
            tls: client_tls("[backbone.nats]", [&self.ca, &self.certificate, &self.key])?,
            forget_after: self.forget_after,
        })
    }

    fn access(&self) -> Result<NatsAccess, SettingsError> {
        let Self { user, password, token, nkey, credentials, .. } = self;
        match (user, password, token, nkey, credentials) {
            (None, None, None, None, None) => Ok(NatsAccess::Nothing),
            (Some(user), Some(password), None, None, None) => {
                Ok(NatsAccess::Password(user.clone(), password.reveal().to_owned()))
            }
            (None, None, Some(token), None, None) => Ok(NatsAccess::Token(token.reveal().to_owned())),
            (None, None, None, Some(nkey), None) => Ok(NatsAccess::Nkey(nkey.clone())),
            (None, None, None, None, Some(file)) => Ok(NatsAccess::Credentials(file.clone())),
            _ => Err(SettingsError::NatsAccess),
        }
    }
}

/// The files for TLS of a section that opens connections: those of `ca`, `certificate` and `key`.
pub(super) fn client_tls(
    section: &str,
    [ca, certificate, key]: [&Option<PathBuf>; 3],
) -> Result<Option<ClientTls>, SettingsError> {
    let own = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        _ => return Err(SettingsError::HalfCertificate(section.to_owned())),
    };
    Ok((ca.is_some() || own.is_some()).then(|| ClientTls { ca: ca.clone(), own }))
}

/// For `#[serde(with = …)]`: a list of servers, or one alone.
mod servers {
    use async_nats::ServerAddr;
    use serde::{Deserializer, Serializer};

    use crate::settings::texts::one_or_many;

    pub(super) fn serialize<S: Serializer>(servers: &[ServerAddr], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(servers.iter().map(ServerAddr::as_url_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<ServerAddr>, D::Error> {
        one_or_many(
            deserializer,
            "the URL of a server such as \"nats://nats1.example:4222\", or a list of them",
            server,
        )
    }

    fn server(text: &str) -> Result<ServerAddr, String> {
        let wanted = "write one such as `nats://nats1.example:4222`, or with `tls://`";
        let server: ServerAddr = text.parse().map_err(|error| format!("`{text}`: {error}; {wanted}"))?;
        if server.is_websocket() || server.host().is_empty() {
            return Err(format!("`{text}` is not a NATS server: {wanted}"));
        }
        if server.has_user_pass() {
            return Err("the URL of a server cannot have a password: write `user` and `password` beside it"
                .to_owned());
        }
        Ok(server)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;

    fn says(text: &str) -> String {
        let whole = format!("[broker]\ncluster = 'c'\n[backbone.nats]\n{text}");
        match whimbrel_service::parse_config::<Settings>("b.toml", &whole) {
            Ok(settings) => settings.nats().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn mistakes_are_told_where_they_are() {
        assert!(
            says("servers = 'http://a'\n").starts_with("b.toml:4:11: "),
            "{}",
            says("servers = 'http://a'\n")
        );
        assert!(says("servers = ['nats://u:p@a']\n").contains("`user` and `password`"));
        assert!(says("servers = []\n").contains("servers"));
        let with = |text: &str| says(&format!("servers = 'nats://a'\n{text}"));
        assert!(with("user = 'u'\n").contains("one of"), "{}", with("user = 'u'\n"));
        assert!(with("token = 't'\nnkey = 'f'\n").contains("one of"));
        assert!(with("certificate = 'c.pem'\n").contains("[backbone.nats]"));
        assert!(with("[[peer]]\nkey = '9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0'\n").contains("[[peer]]"));
        let lonely = "[backbone.nats]\nservers = 'nats://a'\n";
        let settings: Settings = whimbrel_service::parse_config("b.toml", lonely).unwrap();
        assert!(settings.nats().unwrap_err().to_string().contains("cluster"));
    }
}
