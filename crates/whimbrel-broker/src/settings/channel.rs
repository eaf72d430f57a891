//! Channels and their partitions in a file: which topics they have, how they are organised, and what is overwritten.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use whimbrel::ParseError;
use whimbrel::units::as_text;
use whimbrel_pubsub::message::ChannelId;
use whimbrel_pubsub::topic::TopicFilter;

use super::error::SettingsError;
use super::texts::{filter, filters, word};
use crate::buffer::{ChannelSettings, PartitionSettings, PolicySettings, Size};
use crate::hub::{ChannelRules, Durability, DurableRules};
use crate::selection::{KeyRange, PartitionRule};
use crate::store::{LogSettings, Sync};

/// A channel.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelSection {
    /// Its name, the same at all brokers.
    pub name: String,
    /// Its topics. Default: all.
    #[serde(default = "all", with = "filters")]
    pub topics: Vec<TopicFilter>,
    /// The time within which a message that exists must arrive, before subscriptions are told that its fate is unknown. Default: 10 s.
    #[serde(default = "unknown_after", with = "as_text::duration")]
    pub unknown_after: Duration,
    /// The most topics with a last value. Default: 100,000.
    #[serde(default = "retained")]
    pub retained: usize,
    /// Whether its last values are on disk, so that they survive a restart. Default: as `durable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_retained: Option<bool>,
    /// Whether its messages are on disk before their publishers are acknowledged, so that there can be durable subscriptions. Default: no.
    #[serde(default)]
    pub durable: bool,
    /// When a message of a durable channel is acknowledged. Default: always, which is when it is on disk.
    #[serde(default, with = "word")]
    pub sync: Sync,
    /// On how many brokers' disks a message of a durable channel is when its publisher is acknowledged. Default: 2 if there are peers, else 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<usize>,
    /// The longest wait for that, after which a message is refused. Default: 10 s.
    #[serde(default = "acknowledge_within", with = "as_text::duration")]
    pub acknowledge_within: Duration,
    /// The length of a file of its log, 4 KiB to 1 GiB. Default: 64 MiB.
    #[serde(default = "segment", with = "as_text::bytes")]
    pub segment: u64,
    /// The most bytes of its log. Default: no bound.
    #[serde(default, with = "as_text::optional_bytes", skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// The longest time for which its log keeps a message. Default: no bound.
    #[serde(default, with = "as_text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Duration>,
    /// The partitions. A message belongs to the first that takes it, or else to the last. Default: one.
    #[serde(default, rename = "partition")]
    pub partitions: Vec<PartitionSection>,
}

/// A partition of a channel's buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionSection {
    /// Its topics. Default: all of the channel.
    #[serde(default = "everything", with = "filter")]
    pub topics: TopicFilter,
    /// The property by whose value messages belong to it. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The least value of `key`. Default: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// The value of `key` that is beyond the largest. Default: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// The most messages. Default: 20,000.
    #[serde(default = "messages")]
    pub messages: u64,
    /// The most bytes of messages. Default: 64 MiB.
    #[serde(default = "bytes", with = "as_text::bytes")]
    pub bytes: u64,
    /// The longest time that a message is held. Default: no bound.
    #[serde(default, with = "as_text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub age: Option<Duration>,
    /// The span of messages to hold: as many as are published in this time at the present rate, within the other bounds. Default: it does
    /// not follow the rate.
    #[serde(default, with = "as_text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub follow: Option<Duration>,
    /// The policy that chooses the message to overwrite when it is full. Default: lrp.
    #[serde(default, with = "word")]
    pub policy: PolicyName,
    /// The part for recent messages under policy pwp, percent. Default: 80.
    #[serde(default = "recent")]
    pub recent_percent: u8,
    /// The time for which a message keeps its place among the important ones under policy pwp. Default: 48 s.
    #[serde(default = "lifetime", with = "as_text::duration")]
    pub lifetime: Duration,
}

/// The policy that chooses the message to overwrite in a full partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyName {
    /// The least recently published.
    #[default]
    Lrp,
    /// Any.
    Ran,
    /// The paper's policy with priorities.
    Pwp,
}

impl FromStr for PolicyName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "lrp" => Ok(Self::Lrp),
            "ran" => Ok(Self::Ran),
            "pwp" => Ok(Self::Pwp),
            _ => Err(ParseError::new("policy", text, "\"lrp\", \"ran\" or \"pwp\"")),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lrp => "lrp",
            Self::Ran => "ran",
            Self::Pwp => "pwp",
        })
    }
}

/// A setting of a section that cannot be so, and why.
struct Wrong(&'static str, String);

fn all() -> Vec<TopicFilter> {
    vec![everything()]
}

fn everything() -> TopicFilter {
    match "#".parse() {
        Ok(filter) => filter,
        Err(_) => unreachable!("# is a filter"),
    }
}

fn unknown_after() -> Duration {
    ChannelSettings::new(ChannelId(0)).unknown_after
}

fn retained() -> usize {
    ChannelSettings::new(ChannelId(0)).most_retained
}

fn acknowledge_within() -> Duration {
    DurableRules::default().acknowledge_within
}

/// The lengths that a segment may have.
const SEGMENTS: std::ops::RangeInclusive<u32> = 4 << 10..=1 << 30;

fn segment() -> u64 {
    LogSettings::default().segment_bytes.into()
}

fn messages() -> u64 {
    Size::default().messages
}

fn bytes() -> u64 {
    Size::default().bytes
}

fn recent() -> u8 {
    80
}

fn lifetime() -> Duration {
    Duration::from_secs(48)
}

impl ChannelSection {
    /// The channel's rules.
    pub(super) fn rules(&self, id: ChannelId) -> Result<ChannelRules, SettingsError> {
        let mistake = |setting: String, why: String| SettingsError::Channel {
            channel: self.name.clone(),
            setting,
            why,
        };
        let refuse = |setting: &str, why: &str| Err(mistake(setting.to_owned(), why.to_owned()));
        if self.name.is_empty() {
            return refuse("name", "a channel needs a name");
        }
        if self.topics.is_empty() {
            return refuse("topics", "it has no topics: leave `topics` out for all");
        }
        let durable = self.durable_rules().map_err(|Wrong(setting, why)| mistake(setting.to_owned(), why))?;
        let mut settings = ChannelSettings::new(id);
        (settings.unknown_after, settings.most_retained) = (self.unknown_after, self.retained);
        if self.partitions.is_empty() {
            let partitions = vec![PartitionRule::new(everything(), None)];
            return Ok(ChannelRules {
                name: self.name.clone(),
                topics: self.topics.clone(),
                partitions,
                settings,
                durable,
            });
        }
        let rule = |(at, section): (usize, &PartitionSection)| {
            section.rule().map_err(|Wrong(setting, why)| mistake(format!("partition.{at}.{setting}"), why))
        };
        let rules = self.partitions.iter().enumerate().map(rule).collect::<Result<Vec<_>, _>>()?;
        settings.partitions =
            self.partitions.iter().zip(&rules).map(|(section, rule)| section.settings(rule)).collect();
        let (name, topics) = (self.name.clone(), self.topics.clone());
        Ok(ChannelRules { name, topics, partitions: rules, settings, durable })
    }

    /// How the channel is kept on disk.
    fn durable_rules(&self) -> Result<DurableRules, Wrong> {
        let Self { durable, sync, segment, max_bytes, max_age, replicas, acknowledge_within, .. } = *self;
        let for_durable = [
            ("sync", sync != Sync::default()),
            ("replicas", replicas.is_some()),
            ("acknowledge_within", acknowledge_within != self::acknowledge_within()),
            ("segment", segment != self::segment()),
            ("max_bytes", max_bytes.is_some()),
            ("max_age", max_age.is_some()),
        ];
        if let Some((setting, _)) = for_durable.iter().find(|(_, is_set)| *is_set && !durable) {
            let why = format!("`{setting}` is for durable channels: write `durable = true`, or leave it out");
            return Err(Wrong(setting, why));
        }
        let wrong = |setting, why: &str| Err(Wrong(setting, why.to_owned()));
        if replicas == Some(0) {
            return wrong("replicas", "`replicas = 0` keeps nothing: write 1 for this broker's disk alone");
        }
        if self.keep_retained == Some(true) && self.retained == 0 {
            return wrong(
                "keep_retained",
                "`keep_retained` with `retained = 0` keeps nothing: write more topics, or leave it out",
            );
        }
        if acknowledge_within.is_zero() {
            return wrong(
                "acknowledge_within",
                "an `acknowledge_within` of 0 refuses every message: write a longer time",
            );
        }
        let segment_bytes = u32::try_from(segment).ok().filter(|bytes| SEGMENTS.contains(bytes));
        let Some(segment_bytes) = segment_bytes else {
            return wrong(
                "segment",
                &format!("`segment`: {segment} bytes are not between 4 KiB and 1 GiB: write a size between"),
            );
        };
        if max_bytes == Some(0) {
            return wrong("max_bytes", "a log with `max_bytes = 0` keeps nothing: write a larger size");
        }
        if max_age == Some(Duration::ZERO) {
            return wrong("max_age", "a log with a `max_age` of 0 keeps nothing: write a longer time");
        }
        let log = LogSettings { sync, segment_bytes, max_bytes, max_age, ..LogSettings::default() };
        let when = if durable { Durability::Always } else { Durability::Never };
        let last_values = self.keep_retained.unwrap_or(durable);
        Ok(DurableRules { when, log, last_values, replicas, acknowledge_within })
    }
}

impl PartitionSection {
    /// Checks that the partition can hold messages, and that its settings are possible.
    fn check(&self) -> Result<(), Wrong> {
        let nothing = |setting| {
            Err(Wrong(setting, format!("a partition with `{setting}` of 0 holds nothing: write more")))
        };
        let is_nothing = [
            ("messages", self.messages == 0),
            ("bytes", self.bytes == 0),
            ("age", self.age == Some(Duration::ZERO)),
            ("follow", self.follow == Some(Duration::ZERO)),
        ];
        if let Some((setting, _)) = is_nothing.iter().find(|(_, is_nothing)| *is_nothing) {
            return nothing(*setting);
        }
        if self.recent_percent > 100 {
            let why = format!("`recent_percent = {}` is more than 100: write 0 to 100", self.recent_percent);
            return Err(Wrong("recent_percent", why));
        }
        match (self.from, self.to) {
            (Some(from), Some(to)) if !matches!(from.partial_cmp(&to), Some(Ordering::Less)) => {
                let why = format!(
                    "`from = {from}` is not below `to = {to}`: no value lies between, so write a range that has some"
                );
                Err(Wrong("from", why))
            }
            _ => Ok(()),
        }
    }

    fn rule(&self) -> Result<PartitionRule, Wrong> {
        self.check()?;
        let low = self.from.map_or(Bound::Unbounded, Bound::Included);
        let high = self.to.map_or(Bound::Unbounded, Bound::Excluded);
        let key = match &self.key {
            Some(name) => {
                let range = KeyRange::new(name, low, high);
                Some(range.map_err(|fault| Wrong("key", format!("`key = \"{name}\"`: {fault}")))?)
            }
            None if self.from.is_some() || self.to.is_some() => {
                let setting = if self.from.is_some() { "from" } else { "to" };
                let why = format!(
                    "a partition has `{setting}` and no `key`: write `key` with the property that it bounds"
                );
                return Err(Wrong(setting, why));
            }
            None => None,
        };
        Ok(PartitionRule::new(self.topics.clone(), key))
    }

    fn settings(&self, rule: &PartitionRule) -> PartitionSettings {
        let Self { messages, bytes, age, follow, .. } = *self;
        let policy = match self.policy {
            PolicyName::Lrp => PolicySettings::Lrp,
            // Each run of the broker has random numbers of its own.
            PolicyName::Ran => PolicySettings::Ran { seed: crate::hub::random() },
            PolicyName::Pwp => {
                PolicySettings::Pwp { recent_percent: self.recent_percent, lifetime: self.lifetime }
            }
        };
        PartitionSettings {
            rule: Arc::new(rule.clone()),
            size: Size { messages, bytes, age, follow },
            policy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;

    #[test]
    fn what_can_hold_nothing_is_refused() {
        let partition = |text: &str| format!("[[channel]]\nname = 'a'\n[[channel.partition]]\n{text}\n");
        for (text, hint) in [
            ("[[channel]]\nname = ''\n".to_owned(), "needs a name"),
            ("[[channel]]\nname = 'a'\ntopics = []\n".to_owned(), "no topics"),
            (partition("messages = 0"), "holds nothing"),
            (partition("bytes = '0 B'"), "holds nothing"),
            (partition("age = '0s'"), "holds nothing"),
            (partition("policy = 'pwp'\nrecent_percent = 101"), "0 to 100"),
            (partition("key = 'price'\nfrom = 5\nto = 5"), "no value lies between"),
            ("[[channel]]\nname = 'a'\nmax_age = '1h'\n".to_owned(), "durable = true"),
            ("[[channel]]\nname = 'a'\ndurable = true\nsegment = '1 KiB'\n".to_owned(), "4 KiB"),
            ("[[channel]]\nname = 'a'\ndurable = true\nmax_bytes = '0 B'\n".to_owned(), "keeps nothing"),
            ("[[channel]]\nname = 'a'\nsync = 'often'\n".to_owned(), "interval"),
            ("[[channel]]\nname = 'a'\nreplicas = 2\n".to_owned(), "durable = true"),
            ("[[channel]]\nname = 'a'\ndurable = true\nreplicas = 0\n".to_owned(), "keeps nothing"),
            ("[[channel]]\nname = 'a'\ndurable = true\nreplicas = 2\n".to_owned(), "1 broker"),
            (
                "[[channel]]\nname = 'a'\ndurable = true\nacknowledge_within = '0s'\n".to_owned(),
                "refuses every",
            ),
            (partition("key = 'price'\nfrom = nan\nto = 5"), "no value lies between"),
            ("[[channel]]\nname = 'a'\nkeep_retained = true\nretained = 0\n".to_owned(), "keeps nothing"),
        ] {
            // Some are refused where they stand already.
            let error = match whimbrel_service::parse_config::<Settings>("b.toml", &text) {
                Ok(settings) => settings.rules().unwrap_err().to_string(),
                Err(error) => {
                    assert!(error.to_string().starts_with("b.toml:"), "{error}");
                    continue;
                }
            };
            assert!(error.contains(hint) && error.contains("the channel `"), "{text}: {error}");
        }
    }

    #[test]
    fn last_values_are_on_disk_as_messages_are_unless_it_is_said() {
        let keeps = |text: &str| {
            let text = format!("[[channel]]\nname = 'a'\n{text}\n");
            let settings: Settings = whimbrel_service::parse_config("b.toml", &text).unwrap();
            settings.rules().unwrap()[0].durable.last_values
        };
        assert!(keeps("durable = true") && !keeps(""));
        assert!(keeps("keep_retained = true") && !keeps("durable = true\nkeep_retained = false"));
        assert!(
            Settings::default().rules().unwrap()[0].durable.last_values,
            "the one of a broker without any"
        );
    }
}
