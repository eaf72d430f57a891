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
            One(Word),
            Many(Vec<Word>),
        }

        /// A number is read as if it were text.
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a text, or a list of texts")]
        enum Word {
            Text(String),
            Number(i64),
        }

        impl Word {
            fn text(self) -> String {
                match self {
                    Self::Text(text) => text,
                    Self::Number(number) => number.to_string(),
                }
            }
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
            texts.into_iter().map(|word| word.text().parse().map_err(D::Error::custom)).collect()
        }
    }

    /// A rate in bit/s, such as `2mbit`, if it is set.
    pub(crate) mod optional_rate {
        use serde::de::Error;
        use serde::{Deserialize, Deserializer, Serialize, Serializer};
        use whimbrel::units;

        pub(crate) fn serialize<S: Serializer>(rate: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
            rate.map(units::rate_text).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<u64>, D::Error> {
            let text = String::deserialize(deserializer)?;
            units::rate(&text).map(Some).map_err(D::Error::custom)
        }
    }

    /// A service, such as `uu`, if it is set.
    pub(crate) mod optional_service {
        use serde::de::Error;
        use serde::{Deserialize, Deserializer, Serialize, Serializer};
        use whimbrel::Service;

        pub(crate) fn serialize<S: Serializer>(
            service: &Option<Service>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            service.map(Service::short).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Service>, D::Error> {
            let text = String::deserialize(deserializer)?;
            let known = Service::ALL.into_iter().find(|service| service.short() == text);
            let wrong = || D::Error::custom(format!("`{text}` is no service: write uu, us, ru or rs"));
            known.map(Some).ok_or_else(wrong)
        }
    }
}
