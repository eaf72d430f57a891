//! Settings that are written as text in a file.

/// For `#[serde(with = …)]`.
pub(crate) mod as_text {
    /// A list of texts.
    pub(crate) mod list {
        use std::fmt::Display;
        use std::str::FromStr;

        use serde::de::Error;
        use serde::{Deserialize, Deserializer, Serializer};

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
            let texts = Vec::<String>::deserialize(deserializer)?;
            texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
        }
    }
}
