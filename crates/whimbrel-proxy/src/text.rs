//! Settings that are written as text in a file.

/// For `#[serde(with = …)]`.
pub(crate) mod as_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr,
        T::Err: Display,
        D: Deserializer<'de>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }

    /// A list of texts, or one text alone.
    pub(crate) mod list {
        use std::fmt::Display;
        use std::str::FromStr;

        use serde::de::Error;
        use serde::{Deserialize, Deserializer, Serializer};

        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a text, or a list of texts")]
        enum Texts {
            One(String),
            Many(Vec<String>),
        }

        pub(crate) fn serialize<T: Display, S: Serializer>(
            list: &[T],
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(list.iter().map(ToString::to_string))
        }

        pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
        where
            T: FromStr,
            T::Err: Display,
            D: Deserializer<'de>,
        {
            let texts = match Texts::deserialize(deserializer)? {
                Texts::One(text) => vec![text],
                Texts::Many(texts) => texts,
            };
            texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
        }
    }
}
