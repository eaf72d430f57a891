//! The addresses and connectors over which a proxy listens for peers.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use whimbrel_service::ListenSettings;

use super::kind::Connector;

/// The addresses on which a proxy listens for peers. In a file, all of it is one section.
#[derive(Clone, Debug, Default)]
pub struct Listen {
    /// The connector that carries the sessions. Default `whimbrel`. With `tcp`, the address is one of TCP, and of the other settings only the
    /// keys matter.
    pub connector: Connector,
    /// The address and the keys, and the transport's settings.
    pub settings: ListenSettings,
}

/// The field beside those of [`ListenSettings`].
const OWN: &str = "connector";

impl Serialize for Listen {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;

        let mut all = serde_json::to_value(&self.settings).map_err(S::Error::custom)?;
        if let Some(map) = all.as_object_mut() {
            map.insert(OWN.to_owned(), self.connector.name().into());
        }
        all.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Section)
    }
}

struct Section;

impl<'de> Visitor<'de> for Section {
    type Value = Listen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a section with settings of a listener")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Listen, A::Error> {
        let mut connector = Connector::default();
        let others = Others { map, connector: &mut connector };
        let settings = ListenSettings::deserialize(MapAccessDeserializer::new(others))?;
        Ok(Listen { connector, settings })
    }
}

/// The entries of a section without [`OWN`], which it keeps on the way. The place of each entry in the file stays known.
struct Others<'a, A> {
    map: A,
    connector: &'a mut Connector,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Others<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        while let Some(key) = self.map.next_key_seed(Key(&mut seed))? {
            match key {
                Some(other) => return Ok(Some(other)),
                None => *self.connector = self.map.next_value()?,
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Reads a key. `None`: it is [`OWN`], and the seed is still there.
struct Key<'a, K>(&'a mut Option<K>);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'_, K> {
    type Value = Option<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for Key<'_, K> {
    type Value = Option<K::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a setting")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        use serde::de::IntoDeserializer;

        if name == OWN {
            return Ok(None);
        }
        let seed = self.0.take().ok_or_else(|| E::custom("a second key for one value"))?;
        let name: serde::de::value::StrDeserializer<'_, E> = name.into_deserializer();
        seed.deserialize(name).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_service::parse_config;

    use super::*;

    #[test]
    fn the_connector_stands_among_the_other_settings() {
        let text = "address = '[::1]:1'\nconnector = 'tcp'\nmax_per_key = 7\n";
        let listen: Listen = parse_config("x.toml", text).unwrap();
        assert_eq!((listen.connector, listen.settings.config.max_per_key), (Connector::Tcp, 7));
        assert_eq!(listen.settings.address, Some("[::1]:1".parse().unwrap()));
        let written = serde_json::to_value(&listen).unwrap();
        assert_eq!((&written["connector"], &written["max_per_key"]), (&"tcp".into(), &7.into()));
        let plain: Listen = parse_config("x.toml", "max_per_key = 7\n").unwrap();
        assert_eq!(plain.connector, Connector::Whimbrel);
        for (text, place) in
            [("connector = 'tpc'\n", "x.toml:1:13"), ("key = 'k'\nconector = 'tcp'\n", "x.toml:2:1")]
        {
            let error = parse_config::<Listen>("x.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(place), "{error}");
        }
    }
}
