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

    fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
        text.parse().map_err(|error: T::Err| error.to_string())
    }

    /// A list of texts, or one text alone.
    pub(crate) mod list {
        use std::fmt::Display;
        use std::str::FromStr;

        use serde::{Deserializer, Serializer};

        use crate::text_list::List;

        pub(crate) fn serialize<T: Display, S: Serializer>(
            list: &[T],
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(list.iter().map(ToString::to_string))
        }

        pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
        where
            T: FromStr<Err: Display>,
            D: Deserializer<'de>,
        {
            List { read: super::parsed::<T>, may_be_empty: true }.read(deserializer)
        }
    }

    /// The same with at least one entry: without any, it would stand for all.
    pub(crate) mod some {
        use std::fmt::Display;
        use std::str::FromStr;

        use serde::Deserializer;

        pub(crate) use super::list::serialize;
        use crate::text_list::List;

        pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
        where
            T: FromStr<Err: Display>,
            D: Deserializer<'de>,
        {
            List { read: super::parsed::<T>, may_be_empty: false }.read(deserializer)
        }
    }

    /// A list of networks, or one alone.
    pub(crate) mod networks {
        use ipnet::IpNet;
        use serde::Deserializer;

        pub(crate) use super::list::serialize;
        use crate::text_list::{List, network};

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Vec<IpNet>, D::Error> {
            List { read: network, may_be_empty: true }.read(deserializer)
        }
    }

    /// The same with at least one entry: without any, it would stand for all.
    pub(crate) mod some_networks {
        use ipnet::IpNet;
        use serde::Deserializer;

        pub(crate) use super::list::serialize;
        use crate::text_list::{List, network};

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Vec<IpNet>, D::Error> {
            List { read: network, may_be_empty: false }.read(deserializer)
        }
    }

    /// A list of multicast groups with ports, or one alone.
    pub(crate) mod groups {
        use std::net::SocketAddr;

        use serde::Deserializer;

        pub(crate) use super::list::serialize;
        use crate::text_list::{List, group};

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Vec<SocketAddr>, D::Error> {
            List { read: group, may_be_empty: true }.read(deserializer)
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
            let wrong = || D::Error::custom(format!("`{text}` is not a service: write uu, us, ru or rs"));
            known.map(Some).ok_or_else(wrong)
        }
    }
}
