//! The configuration file of the commands that listen.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use whimbrel::{Config, CostPolicy, Paths, SessionConfig, TransportConfig};
use whimbrel_proto::session::MAX_STREAMS;
use whimbrel_service::{
    ConfigError, ListenError, ListenOptions, ListenSettings, Listening, ServiceSettings, read_config,
    refuse_setting,
};

use crate::output::note;
use crate::process::Misused;

/// The settings without a default.
pub(super) const OPTIONAL: [&str; 11] = [
    "listen.address",
    "listen.key",
    "listen.psk",
    "listen.allow",
    "service.control",
    "service.metrics",
    "service.dashboard.address",
    "service.dashboard.hosts",
    "service.activity.path",
    "service.activity.most_bytes",
    "service.activity.keep",
];

/// The settings of a command that listens. In a file, each field is a section.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) listen: ListenSettings,
    /// The transport, with the settings of its sessions.
    pub(crate) transport: TransportConfig,
    /// A section of the file only; [`Settings::complete`] moves it into `transport`.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionConfig>,
    pub(crate) service: ServiceSettings,
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or it has a mistake; the message shows where.
    pub(crate) fn read(path: &Path) -> Result<Self, Misused> {
        let text = || std::fs::read_to_string(path).unwrap_or_default();
        Self::complete(read_config(path), &path.display().to_string(), text)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The text has a mistake; the message shows where.
    #[cfg(test)]
    pub(super) fn parse(text: &str) -> Result<Self, Misused> {
        Self::complete(whimbrel_service::parse_config("x.toml", text), "x.toml", || text.to_owned())
    }

    /// Puts settings in their place that were read from `text`, and refuses what cannot be.
    fn complete(
        read: Result<Self, ConfigError>,
        file: &str,
        text: impl FnOnce() -> String,
    ) -> Result<Self, Misused> {
        let mut settings = read.map_err(|error| Misused(with_section(error).to_string()))?;
        let session = settings.session.take();
        let has_section = session.is_some();
        let is_twice = has_section && settings.transport.session != SessionConfig::default();
        settings.transport.session = session.unwrap_or(settings.transport.session);
        let refused = if is_twice {
            Some(("session", "[session] and [transport.session] are the same: leave one out"))
        } else {
            settings.out_of_range()
        };
        match refused {
            Some((setting, why)) if setting.starts_with("session.") && !has_section => {
                let setting = format!("transport.{setting}");
                Err(Misused(refuse_setting(file, &text(), &setting, why).to_string()))
            }
            Some((setting, why)) => Err(Misused(refuse_setting(file, &text(), setting, why).to_string())),
            None => Ok(settings),
        }
    }

    /// Returns a setting that has a value which cannot be, and what to write.
    fn out_of_range(&self) -> Option<(&'static str, &'static str)> {
        let (transport, session) = (&self.transport, &self.transport.session);
        [
            (
                transport.cost_policy != CostPolicy::Ask,
                "transport.cost_policy",
                "`ask` is for programs that answer: write cheap-first, or never-above=0 for no path that costs anything",
            ),
            (
                (1..=8).contains(&transport.max_paths),
                "transport.max_paths",
                "this number of paths cannot be: write 1 to 8",
            ),
            (
                self.listen.config.network_share <= 100,
                "listen.network_share",
                "this is more than 100: write 0 to 100",
            ),
            (
                (128..=MAX_STREAMS).contains(&session.max_streams),
                "session.max_streams",
                "this number of streams cannot be: write 128 to 1048576",
            ),
            (
                session.stream_share >= 64 << 10,
                "session.stream_share",
                "this is too small: write at least \"64 KiB\"",
            ),
        ]
        .into_iter()
        .find(|(is_possible, ..)| !is_possible)
        .map(|(_, setting, why)| (setting, why))
    }

    /// Opens the socket.
    ///
    /// # Errors
    /// The key file cannot be used, or the port is taken.
    pub(crate) async fn listen(&self, paths: Paths) -> Result<Listening, ListenError> {
        let listen = self.listen.clone();
        let config =
            Config::default().transport(self.transport.clone()).listen(Some(listen.config)).paths(paths);
        let mut options = ListenOptions::new(config);
        (options.address, options.key, options.psk) = (listen.address, listen.key, listen.psk);
        options.listen(note).await
    }
}

/// Adds the section in which a setting belongs that stands in another.
fn with_section(mut error: ConfigError) -> ConfigError {
    if let ConfigError::Mistake(mistake) = &mut error
        && let Some(unknown) = &mistake.unknown
        && let Some(section) = section_of(unknown)
    {
        mistake.message = format!("`{unknown}` does not belong here: write it under [{section}]");
    }
    error
}

/// Returns the section of the setting with this name.
fn section_of(setting: &str) -> Option<String> {
    let mut defaults = BTreeMap::new();
    collect("", serde_json::to_value(Settings::default()).ok()?, &mut defaults);
    let names = defaults.keys().map(String::as_str).chain(OPTIONAL);
    let mut sections = names.filter_map(|name| name.rsplit_once('.'));
    let (section, _) = sections.find(|(_, name)| *name == setting)?;
    Some(section.replace("transport.session", "session"))
}

/// Collects single settings under their names in the file.
pub(super) fn collect(name: &str, value: Value, leaves: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() { field } else { format!("{name}.{field}") };
                collect(&name, value, leaves);
            }
        }
        value => drop(leaves.insert(name.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn says(text: &str) -> String {
        Settings::parse(text).err().map(|Misused(text)| text).unwrap_or_default()
    }

    #[test]
    fn the_sections_reach_the_settings() {
        let text = "[listen]\naddress = '127.0.0.1:0'\nmax_per_key = 3\n[transport]\nmax_paths = 2\n\
                    [session]\ngap_wait = '1s'\n[service]\ncontrol = '/run/x'\n[service.activity]\npath = '/var/log/x'\nmost_bytes = '1M'\n";
        let settings = Settings::parse(text).unwrap();
        assert_eq!((settings.listen.config.max_per_key, settings.transport.max_paths), (3, 2));
        assert_eq!(settings.transport.session.gap_wait, Duration::from_secs(1));
        let activity = settings.service.activity.unwrap();
        assert_eq!((activity.most_bytes, activity.keep), (1_000_000, 4));
    }

    #[test]
    fn a_setting_in_another_section_is_told_its_own() {
        for (text, section) in [
            ("idle_timeout = '5s'", "1:1: `idle_timeout` does not belong here: write it under [transport]"),
            (
                "[transport]\nmax_message = '1M'",
                "2:1: `max_message` does not belong here: write it under [session]",
            ),
            (
                "[listen]\nshow_key = true",
                "2:1: `show_key` does not belong here: write it under [listen.acceptor]",
            ),
            ("[transport]\nallow = []", "2:1: `allow` does not belong here: write it under [listen]"),
            ("[service]\nkeep = 3", "2:1: `keep` does not belong here: write it under [service.activity]"),
        ] {
            assert!(says(text).starts_with(&format!("x.toml:{section}")), "{text}: {}", says(text));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let both = says("[session]\ngap_wait = '1s'\n[transport.session]\nageing = '1s'\n");
        assert!(both.starts_with("x.toml:1:1: ") && both.contains("leave one out"), "{both}");
        for (text, wanted) in [
            (
                "[transport]\ncost_policy = 'ask'",
                "2:15: `ask` is for programs that answer: write cheap-first",
            ),
            ("[transport]\necn = true\nmax_paths = 0", "3:13: this number of paths cannot be: write 1 to 8"),
            ("[listen]\nnetwork_share = 200", "2:17: this is more than 100: write 0 to 100"),
            ("[session]\nmax_streams = 5", "2:15: this number of streams cannot be: write 128 to 1048576"),
            ("[transport.session]\nmax_streams = 5", "2:15: this number of streams cannot be: write 128"),
            ("[session]\nstream_share = '1 KiB'", "2:16: this is too small: write at least \"64 KiB\""),
        ] {
            assert!(says(text).starts_with(&format!("x.toml:{wanted}")), "{text}: {}", says(text));
        }
        let unknown = says("[listens]\n");
        assert!(unknown.contains("x.toml:1:2: unknown setting `listens`: write `listen`"), "{unknown}");
        assert!(says("[service.activity]\nkeep = 1\n").contains("`path`"), "the file has to be named");
    }
}
