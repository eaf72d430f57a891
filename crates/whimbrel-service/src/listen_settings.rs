//! The section of a configuration file that says where to listen, and as whom.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use whimbrel::ListenConfig;

use crate::with_port::WithPort;

/// The settings of a listener in a file: the fields of [`ListenConfig`], and these. In a file, all stand in one section.
///
/// ```
/// use whimbrel_service::{ListenSettings, parse_config};
///
/// let text = "address = '[::]:4433'\nkey = '/etc/example/key'\nmax_per_key = 64";
/// let listen: ListenSettings = parse_config("example.toml", text)?;
/// assert_eq!(listen.config.max_per_key, 64);
/// # Ok::<(), whimbrel_service::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListenSettings {
    /// See [`ListenOptions::address`](field@crate::ListenOptions::address).
    pub address: Option<SocketAddr>,
    /// See [`ListenOptions::key`](field@crate::ListenOptions::key).
    pub key: Option<PathBuf>,
    /// See [`ListenOptions::psk`](field@crate::ListenOptions::psk).
    pub psk: Option<PathBuf>,
    /// All other fields.
    pub config: ListenConfig,
}

/// The fields beside those of [`ListenConfig`].
const OWN: [&str; 3] = ["address", "key", "psk"];

impl Serialize for ListenSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The fields of a struct that is written into a map of its own are not at hand without a format in between.
        let config = serde_json::to_value(&self.config).map_err(serde::ser::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        if let Some(address) = &self.address {
            map.serialize_entry(OWN[0], address)?;
        }
        for (name, path) in [(OWN[1], &self.key), (OWN[2], &self.psk)] {
            if let Some(path) = path {
                map.serialize_entry(name, path)?;
            }
        }
        for (name, value) in config.as_object().into_iter().flatten() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for ListenSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Section)
    }
}

struct Section;

impl<'de> Visitor<'de> for Section {
    type Value = ListenSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a section with settings of a listener")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ListenSettings, A::Error> {
        let mut settings = ListenSettings::default();
        let others = Others { map, settings: &mut settings };
        let config = ListenConfig::deserialize(MapAccessDeserializer::new(others))?;
        Ok(ListenSettings { config, ..settings })
    }
}

/// The entries of a section that are not [`OWN`] ones, which it keeps on the way. Unlike serde's `flatten`, this keeps
/// the place of each entry in the file, so that errors can show it.
struct Others<'a, A> {
    map: A,
    settings: &'a mut ListenSettings,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Others<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        while let Some(key) = self.map.next_key_seed(Key(&mut seed))? {
            match key {
                Which::Address => self.settings.address = Some(self.map.next_value::<WithPort>()?.0),
                Which::Key => self.settings.key = Some(self.map.next_value()?),
                Which::Psk => self.settings.psk = Some(self.map.next_value()?),
                Which::Other(key) => return Ok(Some(key)),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Which field a key names.
enum Which<T> {
    Address,
    Key,
    Psk,
    /// One of [`ListenConfig`], as that reads it.
    Other(T),
}

/// Reads a key. The seed of [`ListenConfig`] is used up by the first key that is not an [`OWN`] one.
struct Key<'a, K>(&'a mut Option<K>);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'_, K> {
    type Value = Which<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for Key<'_, K> {
    type Value = Which<K::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a setting")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        match (name, self.0.take()) {
            ("address", seed) => {
                *self.0 = seed;
                Ok(Which::Address)
            }
            ("key", seed) => {
                *self.0 = seed;
                Ok(Which::Key)
            }
            ("psk", seed) => {
                *self.0 = seed;
                Ok(Which::Psk)
            }
            (_, Some(seed)) => {
                let name: StrDeserializer<'_, E> = name.into_deserializer();
                let own = OWN.map(|own| format!("`{own}`")).join(", ");
                seed.deserialize(name).map(Which::Other).map_err(|error| {
                    let error = error.to_string();
                    E::custom(format!("{}, {own}", error.trim_end()))
                })
            }
            (_, None) => Err(E::custom("a second key for one value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_config;

    #[test]
    fn own_fields_and_those_of_the_library_stand_in_one_section() {
        let text = "max_per_key = 7\naddress = '[::1]:1'\npsk = 'p'\nnetwork_share = 50\nkey = 'k'\n\n[acceptor]\nshow_key = true\n";
        let settings: ListenSettings = parse_config("x.toml", text).unwrap();
        assert_eq!(settings.address, Some("[::1]:1".parse().unwrap()));
        assert_eq!((settings.key.clone(), settings.psk.clone()), (Some("k".into()), Some("p".into())));
        let config = &settings.config;
        assert_eq!((config.max_per_key, config.network_share, config.acceptor.show_key), (7, 50, true));
        let written = toml::to_string(&settings).unwrap();
        let again: ListenSettings = parse_config("x.toml", &written).unwrap();
        assert_eq!(toml::to_string(&again).unwrap(), written);
        assert_eq!((again.address, again.config.max_per_key), (settings.address, 7));
    }

    #[test]
    fn a_mistake_is_shown_where_it_is() {
        let says = |text: &str| parse_config::<ListenSettings>("x.toml", text).err().unwrap().to_string();
        let unknown = says("max_per_key = 7\nadress = '[::1]:1'\n");
        assert!(unknown.starts_with("x.toml:2:1: unknown setting `adress`: write `address`"), "{unknown}");
        let other = says("speed = 7\n");
        assert!(other.contains("`max_per_key`") && other.contains("`syns_per_second`, `address`"), "{other}");
        assert!(unknown.ends_with("| ^^^^^^"), "{unknown}");
        let wrong = says("key = 'k'\naddress = '[::1]'\n");
        assert!(wrong.starts_with("x.toml:2:11: `[::1]` is not an address with a port: write"), "{wrong}");
        for wrong in ["4433", "':4433'", "'localhost:4433'"] {
            let said = says(&format!("address = {wrong}\n"));
            assert!(said.contains("192.0.2.7:4433 or [::]:4433"), "{said}");
        }
        #[derive(Deserialize, Debug)]
        struct File {
            #[allow(dead_code, reason = "only read by serde")]
            listen: ListenSettings,
        }
        let wrong = parse_config::<File>("x.toml", "listen = []").unwrap_err().to_string();
        assert!(
            wrong.starts_with("x.toml:1:10: `[]` is not allowed here: write a section with settings"),
            "{wrong}"
        );
        let wrong = says("address = '[::1]:7'\n[acceptor]\nticket_life = 50\n");
        assert!(wrong.starts_with("x.toml:3:15: ") && wrong.contains("50ms"), "{wrong}");
    }
}
