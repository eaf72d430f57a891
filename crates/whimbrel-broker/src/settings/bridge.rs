//! Bridges to MQTT brokers of others in a file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use whimbrel::ParseError;
use whimbrel::units::as_text;
use whimbrel_pubsub::topic::TopicFilter;

use super::backbone::client_tls;
use super::bridge_topics::{Direction, Wrong};
use super::error::SettingsError;
use super::secret::Secret;
use super::texts::{filter, word};
use crate::gateway::mqtt::{BridgePlan, BridgeRule, BridgeVersion};
use crate::hub::ChannelRules;
use crate::tls::ClientTls;

/// The longest time that a server waits for a packet, seconds.
const LONGEST_KEEP_ALIVE: u64 = 65_535;

/// A bridge to an MQTT broker of others. Relative paths begin at the folder of the configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeSection {
    /// Its name.
    pub name: String,
    /// The other broker: `mqtt://HOST:PORT`, or `mqtts://…` with TLS. Default ports: 1883, and 8883 with TLS.
    pub url: BridgeUrl,
    /// The user that the other broker is shown. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its password. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// The file with the certificates of authorities that sign the other broker's certificate, in PEM. Default: the authorities that the system
    /// trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The file of the certificate that the other broker is shown, in PEM. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// The file of its private key, in PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The client identifier. Default: `whimbrel-` and the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The version of MQTT: `5`, or 3.1.1 if the other broker knows no other, or `3.1.1` alone. Default: 5.
    #[serde(default, with = "word")]
    pub version: VersionName,
    /// The time without a packet after which the other broker is asked whether it is there. Default: 15 s.
    #[serde(default = "keep_alive", with = "as_text::duration")]
    pub keep_alive: Duration,
    /// The time for which the other broker keeps messages for this one. Default: 24 h. MQTT 3.1.1 has no such time.
    #[serde(default = "session", with = "as_text::duration")]
    pub session: Duration,
    /// The rules for messages to the other broker. Default: none.
    #[serde(default)]
    pub out: Vec<RuleSection>,
    /// The rules for messages from it. Default: none.
    #[serde(default, rename = "in")]
    pub from: Vec<RuleSection>,
}

/// A rule of a bridge, in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSection {
    /// The topics, as the side names them from which messages come.
    #[serde(with = "filter")]
    pub filter: TopicFilter,
    /// The beginning that a topic loses on the way. Default: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub strip: String,
    /// The prefix that the topic is given on the way. Default: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// 1, or 0 for messages that may get lost. Default: 1.
    #[serde(default = "at_least_once")]
    pub qos: u8,
}

/// The address of an MQTT broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BridgeUrl {
    has_tls: bool,
    host: String,
    port: u16,
}

/// The version of MQTT that a bridge speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionName {
    /// 5, or 3.1.1 if the other broker knows no other.
    #[default]
    Newest,
    /// 3.1.1.
    V3,
}

impl FromStr for VersionName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "5" | "5.0" => Ok(Self::Newest),
            "3.1.1" => Ok(Self::V3),
            _ => Err(ParseError::new("version of MQTT", text, "\"5\" or \"3.1.1\"")),
        }
    }
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Newest => "5",
            Self::V3 => "3.1.1",
        })
    }
}

fn keep_alive() -> Duration {
    Duration::from_secs(15)
}

fn session() -> Duration {
    Duration::from_secs(86_400)
}

fn at_least_once() -> u8 {
    1
}

impl TryFrom<String> for BridgeUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not an MQTT broker: write mqtt://HOST:PORT, or mqtts://HOST:PORT with TLS")
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let has_tls = match scheme {
            "mqtt" => false,
            "mqtts" => true,
            _ => return Err(wrong()),
        };
        if rest.contains('@') {
            return Err("the URL of a bridge cannot have a password: write `user` and `password` beside it"
                .to_owned());
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let is_port = |port: &&str| !port.contains(']');
        let (host, port) = match rest.rsplit_once(':').filter(|(_, port)| is_port(port)) {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (rest, if has_tls { 8_883 } else { 1_883 }),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_plain = |host: &str| !host.is_empty() && !host.contains(['/', ':', '[', ']', '?', '#', ' ']);
        match bare {
            Some(host) if host.parse::<std::net::Ipv6Addr>().is_ok() => {
                Ok(Self { has_tls, host: host.to_owned(), port })
            }
            None if is_plain(host) => Ok(Self { has_tls, host: host.to_owned(), port }),
            _ => Err(wrong()),
        }
    }
}

impl From<BridgeUrl> for String {
    fn from(BridgeUrl { has_tls, host, port }: BridgeUrl) -> Self {
        let scheme = if has_tls { "mqtts" } else { "mqtt" };
        if host.contains(':') {
            format!("{scheme}://[{host}]:{port}")
        } else {
            format!("{scheme}://{host}:{port}")
        }
    }
}

impl BridgeSection {
    /// Has relative paths begin at `folder`.
    pub fn relative_to(&mut self, folder: &Path) {
        for path in [&mut self.ca, &mut self.certificate, &mut self.key].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }

    /// The bridge of a broker with these channels.
    pub(super) fn plan(&self, channels: &[ChannelRules]) -> Result<BridgePlan, SettingsError> {
        let mistake = |setting: &str, why: &str| SettingsError::Bridge {
            bridge: self.name.clone(),
            setting: setting.to_owned(),
            why: why.to_owned(),
        };
        if self.name.is_empty() || self.name.len() > 64 {
            return Err(mistake("name", "a bridge needs a name of 1 to 64 bytes"));
        }
        if self.out.is_empty() && self.from.is_empty() {
            return Err(mistake("", "it carries nothing: write `out = [{ filter = \"…\" }]` or `in = …`"));
        }
        if self.password.is_some() && self.user.is_none() {
            return Err(mistake("password", "it has a `password` and no `user`: write `user`, too"));
        }
        if self.keep_alive.as_secs() == 0 || self.keep_alive.as_secs() > LONGEST_KEEP_ALIVE {
            return Err(mistake(
                "keep_alive",
                "`keep_alive` is not between 1 s and 18 h: write for example \"15s\"",
            ));
        }
        let files = client_tls(&called(&self.name), [&self.ca, &self.certificate, &self.key])?;
        if files.is_some() && !self.url.has_tls {
            let why = "`ca`, `certificate` and `key` are for TLS: write mqtts:// in `url`, or leave them out";
            return Err(mistake("url", why));
        }
        Ok(BridgePlan {
            name: self.name.clone(),
            host: self.url.host.clone(),
            port: self.url.port,
            tls: self.url.has_tls.then(|| files.unwrap_or_else(ClientTls::default)),
            user: self.user.clone(),
            password: self.password.as_ref().map(|password| password.reveal().to_owned()),
            client: self.client.clone().unwrap_or_else(|| format!("whimbrel-{}", self.name)),
            version: match self.version {
                VersionName::Newest => BridgeVersion::Newest,
                VersionName::V3 => BridgeVersion::V3,
            },
            keep_alive: self.keep_alive,
            session: self.session,
            out: rules(Direction::Out, &self.out, channels, &mistake)?,
            from: rules(Direction::In, &self.from, channels, &mistake)?,
        })
    }
}

/// A bridge as errors call it.
pub(super) fn called(name: &str) -> String {
    format!("the bridge `{name}`")
}

/// Makes the error of a setting.
type Mistake<'a> = dyn Fn(&str, &str) -> SettingsError + 'a;

/// The rules of one direction.
fn rules(
    direction: Direction,
    sections: &[RuleSection],
    channels: &[ChannelRules],
    mistake: &Mistake<'_>,
) -> Result<Vec<BridgeRule>, SettingsError> {
    let rule = |(at, section): (usize, &RuleSection)| {
        let place = |setting: &str| format!("{}.{at}.{setting}", direction.name());
        let rule = section.rule().map_err(|(setting, why)| mistake(&place(setting), why))?;
        direction.check(&rule, channels).map_err(|Wrong(setting, why)| mistake(&place(setting), &why))?;
        Ok(rule)
    };
    sections.iter().enumerate().map(rule).collect()
}

impl RuleSection {
    /// The rule, or the setting that is wrong, and why.
    fn rule(&self) -> Result<BridgeRule, (&'static str, &'static str)> {
        let Self { filter, strip, prefix, qos } = self;
        let why = "`strip` and `prefix` are beginnings of topics, so write them without wildcards";
        if strip.contains(['+', '#']) {
            return Err(("strip", why));
        }
        if prefix.contains(['+', '#', '\0']) {
            return Err(("prefix", why));
        }
        if *qos > 1 {
            return Err(("qos", "bridges do not support QoS 2: write `qos` as 0 or 1"));
        }
        let (filter, strip, prefix) = (filter.clone(), strip.clone(), prefix.clone());
        Ok(BridgeRule { filter, strip, prefix, is_acknowledged: *qos == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;

    fn parse(text: &str) -> Result<Settings, String> {
        let whole = format!("[[bridge]]\nname = 'b'\n{text}");
        whimbrel_service::parse_config("b.toml", &whole).map_err(|error| error.to_string())
    }

    #[test]
    fn a_bridge_has_an_address_and_rules() {
        let settings = parse(
            "url = 'mqtts://[::1]'\nuser = 'u'\npassword = 'p'\nout = [{ filter = 'a/#', strip = 'a/', prefix = 'site/' }]\n\
             in = [{ filter = 'c/+', qos = 0 }]\n",
        );
        let plan = settings.unwrap().bridges().unwrap().remove(0);
        assert_eq!((&*plan.host, plan.port, plan.tls.is_some()), ("::1", 8_883, true));
        assert_eq!((plan.out[0].is_acknowledged, plan.from[0].is_acknowledged), (true, false));
        assert!(!format!("{:?}", parse("url = 'mqtt://a'\npassword = 'secret'\n")).contains("secret"));
    }

    #[test]
    fn mistakes_are_told() {
        let says = |text: &str| match parse(text) {
            Ok(settings) => settings.bridges().unwrap_err().to_string(),
            Err(error) => error,
        };
        for url in ["http://a", "a", "mqtt://", "mqtt://a:b", "mqtt://u@a", "mqtt://a:1:2", "mqtt://[a]"] {
            let said = says(&format!("url = '{url}'\n"));
            assert!(said.starts_with("b.toml:3:7: "), "{url}: {said}");
        }
        let with = |text: &str| says(&format!("url = 'mqtt://a'\n{text}"));
        assert!(with("").contains("carries nothing"));
        assert!(with("out = [{ filter = 'a/#/b' }]\n").starts_with("b.toml:4:"));
        assert!(with("out = [{ filter = 'a', qos = 2 }]\n").contains("0 or 1"));
        assert!(with("out = [{ filter = 'a', prefix = '#' }]\n").contains("wildcards"));
        assert!(with("out = [{ filter = 'a' }]\nca = 'x.pem'\n").contains("mqtts://"));
        assert!(
            with("out = [{ filter = 'a' }]\n[[bridge]]\nname = 'b'\nurl = 'mqtt://a'\n")
                .contains("two bridges")
        );
    }
}
