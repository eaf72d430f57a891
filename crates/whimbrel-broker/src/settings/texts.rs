//! Settings that are read from their text form.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

/// Reads a list of texts, or one text alone. Each is refused where it stands.
pub(super) fn one_or_many<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    expecting: &'static str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(Texts { expecting, parse })
}

struct Texts<T> {
    expecting: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<'de, T> Visitor<'de> for Texts<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![(self.parse)(text).map_err(E::custom)?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = texts.next_element_seed(Text(self.parse))? {
            all.push(one);
        }
        Ok(all)
    }
}

/// One text of a list.
struct Text<T>(fn(&str) -> Result<T, String>);

impl<'de, T> DeserializeSeed<'de> for Text<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text in quotation marks")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

/// For `#[serde(with = …)]`: one word. Whatever else stands there gets the word's own error, which lists what may stand there.
pub(super) mod word {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserializer, Serializer};
    use whimbrel::units::as_text::parsed;

    pub(in crate::settings) fn serialize<T: Display, S: Serializer>(
        word: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(word)
    }

    pub(in crate::settings) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        parsed(from)
    }
}

/// For `#[serde(with = …)]`: one filter.
pub(super) mod filter {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use whimbrel_pubsub::topic::TopicFilter;

    pub(in crate::settings) fn serialize<S: Serializer>(
        filter: &TopicFilter,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(filter)
    }

    pub(in crate::settings) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<TopicFilter, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// For `#[serde(with = …)]`: a list of filters, or one alone.
pub(super) mod filters {
    use serde::{Deserializer, Serializer};
    use whimbrel_pubsub::topic::{TopicError, TopicFilter};

    pub(in crate::settings) fn serialize<S: Serializer>(
        filters: &[TopicFilter],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(filters.iter().map(TopicFilter::as_str))
    }

    pub(in crate::settings) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<TopicFilter>, D::Error> {
        crate::settings::texts::one_or_many(
            from,
            "a filter such as \"prices/#\", or a list of filters",
            |text| text.parse().map_err(|error: TopicError| error.to_string()),
        )
    }
}
