//! Users of MQTT in a file.

use serde::{Deserialize, Serialize};
use whimbrel_pubsub::topic::TopicFilter;

use super::super::error::SettingsError;
use super::super::quota::QuotaSection;
use super::super::texts::filters;
use crate::gateway::mqtt::{Password, Rules, User};
use crate::native::Permissions;

/// A user of MQTT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSection {
    /// Its name.
    pub name: String,
    /// Its password as `whimbrel broker password` hashes it. Default: none, so that it needs a certificate.
    #[serde(default, with = "hash", skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
    /// The name in its certificate: the common name of the subject, or a DNS name among the alternative names. Default: none, so that it needs
    /// a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The topics that it may publish to. Default: none.
    #[serde(default, with = "filters")]
    pub publish: Vec<TopicFilter>,
    /// The filters that it may subscribe to, and narrower ones. Default: none.
    #[serde(default, with = "filters")]
    pub subscribe: Vec<TopicFilter>,
    /// The most that all of its connections together may publish, and each may have else. Default: as the limits say.
    #[serde(default, skip_serializing_if = "QuotaSection::is_none")]
    pub quota: QuotaSection,
}

impl UserSection {
    pub(super) fn enter(self, rules: &mut Rules) -> Result<(), SettingsError> {
        let Self { name, password, certificate, publish, subscribe, quota } = self;
        if password.is_none() && certificate.is_none() {
            return Err(SettingsError::MqttNoProof(name));
        }
        if let Some(certificate) = certificate
            && rules.certificates.insert(certificate.clone(), name.clone()).is_some()
        {
            return Err(SettingsError::MqttSameCertificate(certificate));
        }
        let permissions = Permissions { publish, subscribe, quota: quota.quota() };
        let user = User { password, permissions };
        match rules.users.insert(name.clone(), user) {
            Some(_) => Err(SettingsError::SameUser(name)),
            None => Ok(()),
        }
    }
}

/// For `#[serde(with = …)]`: a hashed password as text.
mod hash {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::gateway::mqtt::Password;

    pub(super) fn serialize<S: Serializer>(password: &Option<Password>, to: S) -> Result<S::Ok, S::Error> {
        match password {
            Some(password) => to.serialize_some(password.as_str()),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Password>, D::Error> {
        String::deserialize(from)?.parse().map(Some).map_err(de::Error::custom)
    }
}
