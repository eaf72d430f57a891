//! Channels and their partitions in a file: which topics they have, how they are organised, and what is overwritten.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use whimbrel::units::as_text;
use whimbrel_pubsub::message::ChannelId;
use whimbrel_pubsub::topic::TopicFilter;

use super::error::SettingsError;
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
    /// How long a message that exists may take to come, before subscriptions are told that its fate is unknown. Default: 10 s.
    #[serde(default = "unknown_after", with = "as_text::duration")]
    pub unknown_after: Duration,
    /// The most topics with a last value. Default: 100,000.
    #[serde(default = "retained")]
    pub retained: usize,
    /// Whether its messages are on disk before their publishers are acknowledged, so that there can be durable subscriptions. Default: no.
    #[serde(default)]
    pub durable: bool,
    /// When a message of a durable channel is acknowledged. Default: always, which is when it is on disk.
    #[serde(default, with = "as_sync")]
    pub sync: Sync,
    /// On how many brokers' disks a message of a durable channel is when its publisher is acknowledged. Default: 2 if there are peers, else 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<usize>,
    /// How long a message may wait for that until it is refused. Default: 10 s.
    #[serde(default = "acknowledge_within", with = "as_text::duration")]
    pub acknowledge_within: Duration,
    /// The length of a file of its log, 4 KiB to 1 GiB. Default: 64 MiB.
    #[serde(default = "segment", with = "as_text::bytes")]
    pub segment: u64,
    /// The most bytes of its log. Default: no bound.
    #[serde(default, with = "as_text::optional_bytes", skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// How long its log keeps a message at most. Default: no bound.
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
    #[serde(default = "everything", with = "as_text_of")]
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
    /// As many messages as are published in this time at the present rate, within the other bounds. Default: it does not follow the rate.
    #[serde(default, with = "as_text::optional_duration", skip_serializing_if = "Option::is_none")]
    pub follow: Option<Duration>,
    /// Which message gives way when it is full. Default: lrp.
    #[serde(default)]
    pub policy: PolicyName,
    /// The part for recent messages under policy pwp, percent. Default: 80.
    #[serde(default = "recent")]
    pub recent_percent: u8,
    /// How long a message keeps its place among the important ones under policy pwp. Default: 48 s.
    #[serde(default = "lifetime", with = "as_text::duration")]
    pub lifetime: Duration,
}

/// Which message of a full partition gives way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyName {
    /// The least recently published.
    #[default]
    Lrp,
    /// Any.
    Ran,
    /// The paper's policy with priorities.
    Pwp,
}

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
        let mistake = |why: &dyn std::fmt::Display| SettingsError::Channel {
            channel: self.name.clone(),
            why: why.to_string(),
        };
        if self.name.is_empty() {
            return Err(mistake(&"a channel needs a name that is not empty"));
        }
        if self.topics.is_empty() {
            return Err(mistake(&"it has no topics: leave `topics` out for all"));
        }
        let durable = self.durable_rules().map_err(|why| mistake(&why))?;
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
        let rules = self.partitions.iter().map(PartitionSection::rule).collect::<Result<Vec<_>, _>>();
        let rules = rules.map_err(|why| mistake(&why))?;
        settings.partitions =
            self.partitions.iter().zip(&rules).map(|(section, rule)| section.settings(rule)).collect();
        let (name, topics) = (self.name.clone(), self.topics.clone());
        Ok(ChannelRules { name, topics, partitions: rules, settings, durable })
    }

    /// How the channel is kept on disk.
    fn durable_rules(&self) -> Result<DurableRules, String> {
        let Self { durable, sync, segment, max_bytes, max_age, replicas, acknowledge_within, .. } = *self;
        let has_settings = sync != Sync::default() || max_bytes.is_some() || max_age.is_some();
        let has_times = segment != self::segment() || acknowledge_within != self::acknowledge_within();
        if !durable && (has_settings || has_times || replicas.is_some()) {
            return Err("`sync`, `replicas`, `acknowledge_within`, `segment`, `max_bytes` and `max_age` are for durable channels: write \
                        `durable = true`, or leave them out"
                .to_owned());
        }
        if replicas == Some(0) {
            return Err("`replicas = 0` keeps nothing: write 1 for this broker's disk alone".to_owned());
        }
        if acknowledge_within.is_zero() {
            return Err("`acknowledge_within` of no time refuses every message: write more".to_owned());
        }
        let segment_bytes = u32::try_from(segment).ok().filter(|bytes| SEGMENTS.contains(bytes));
        let Some(segment_bytes) = segment_bytes else {
            return Err(format!("`segment`: {segment} bytes are not between 4 KiB and 1 GiB"));
        };
        if max_bytes == Some(0) || max_age == Some(Duration::ZERO) {
            return Err("a log with `max_bytes` or `max_age` of nothing keeps nothing: write more".to_owned());
        }
        let log = LogSettings { sync, segment_bytes, max_bytes, max_age, ..LogSettings::default() };
        let when = if durable { Durability::Always } else { Durability::Never };
        Ok(DurableRules { when, log, replicas, acknowledge_within })
    }
}

impl PartitionSection {
    /// Checks that the partition can hold messages, and that its settings are possible.
    fn check(&self) -> Result<(), String> {
        if self.messages == 0 || self.bytes == 0 {
            return Err(
                "a partition with `messages = 0` or `bytes = \"0\"` holds nothing: write more".to_owned()
            );
        }
        if [self.age, self.follow].contains(&Some(Duration::ZERO)) {
            return Err("a partition with `age` or `follow` of no time holds nothing: write more".to_owned());
        }
        if self.recent_percent > 100 {
            return Err(format!(
                "`recent_percent = {}` is more than all: write 0 to 100",
                self.recent_percent
            ));
        }
        match (self.from, self.to) {
            (Some(from), Some(to)) if !matches!(from.partial_cmp(&to), Some(Ordering::Less)) => {
                Err(format!("`from = {from}` is not below `to = {to}`: no value lies between"))
            }
            _ => Ok(()),
        }
    }

    fn rule(&self) -> Result<PartitionRule, String> {
        self.check()?;
        let low = self.from.map_or(Bound::Unbounded, Bound::Included);
        let high = self.to.map_or(Bound::Unbounded, Bound::Excluded);
        let key = match &self.key {
            Some(name) => {
                Some(KeyRange::new(name, low, high).map_err(|fault| format!("`key = \"{name}\"`: {fault}"))?)
            }
            None if self.from.is_some() || self.to.is_some() => {
                return Err("a partition has `from` or `to` and no `key`: name the property that they bound"
                    .to_owned());
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

/// For `#[serde(with = …)]`: one filter.
pub(super) mod as_text_of {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use whimbrel_pubsub::topic::TopicFilter;

    pub(in crate::settings) fn serialize<S: Serializer>(
        filter: &TopicFilter,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(filter)
    }

    pub(in crate::settings) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<TopicFilter, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// For `#[serde(with = …)]`: when a message is acknowledged.
mod as_sync {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::store::Sync;

    pub(super) fn serialize<S: Serializer>(sync: &Sync, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(sync)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sync, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// For `#[serde(with = …)]`: a list of filters, or one alone.
pub(super) mod filters {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use whimbrel_pubsub::topic::TopicFilter;

    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a filter, or a list of filters")]
    enum Texts {
        One(String),
        Many(Vec<String>),
    }

    pub(in crate::settings) fn serialize<S: Serializer>(
        filters: &[TopicFilter],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(filters.iter().map(TopicFilter::as_str))
    }

    pub(in crate::settings) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<TopicFilter>, D::Error> {
        let texts = match Texts::deserialize(deserializer)? {
            Texts::One(text) => vec![text],
            Texts::Many(texts) => texts,
        };
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
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
}
