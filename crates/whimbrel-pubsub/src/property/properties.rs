use std::fmt;

use bytes::Bytes;

use super::error::{PropertyError, PropertyFault};
use super::limits::{MAX_PROPERTIES, MAX_PROPERTIES_LEN};
use super::lookup::Lookup;
use super::name::check_name;
use super::value::Value;
use super::wire;

/// The properties of a message, as they are on the wire. A clone shares them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(Bytes);

impl Properties {
    /// Makes properties of names and values, in any order.
    ///
    /// # Errors
    /// A name is refused or used twice, or there is too much.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Result<Self, PropertyError> {
        let mut sorted = Vec::new();
        let mut len = 0;
        for (name, value) in pairs {
            check_name(name).map_err(|fault| PropertyError::of(name, PropertyFault::Name(fault)))?;
            if sorted.len() == MAX_PROPERTIES {
                return Err(PropertyError::of(name, PropertyFault::TooMany));
            }
            len += wire::written_len(name, value).unwrap_or(MAX_PROPERTIES_LEN + 1);
            if len > MAX_PROPERTIES_LEN {
                return Err(PropertyError::of(name, PropertyFault::TooLong));
            }
            sorted.push((name, value));
        }
        sorted.sort_unstable_by_key(|(name, _)| *name);
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(PropertyError::of(pair[0].0, PropertyFault::Twice));
        }
        let mut out = Vec::with_capacity(len);
        sorted.into_iter().for_each(|(name, value)| wire::write(&mut out, name, value));
        Ok(Self(out.into()))
    }

    /// Checks bytes from the network.
    ///
    /// # Errors
    /// The bytes are not properties in ascending order of their names, a name is refused, or there is too much.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, PropertyError> {
        check(&bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the bytes on the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the properties, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        each(&self.0)
    }
}

impl Lookup for Properties {
    fn property(&self, name: &str) -> Option<Value<'_>> {
        find(&self.0, name)
    }

    fn each_property(&self, see: &mut dyn FnMut(&str, Value<'_>)) {
        self.iter().for_each(|(name, value)| see(name, value));
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Checks bytes from the network, as [`Properties::from_bytes`] does.
pub(crate) fn check(bytes: &[u8]) -> Result<(), PropertyError> {
    if bytes.len() > MAX_PROPERTIES_LEN {
        return Err(PropertyError::new(PropertyFault::TooLong));
    }
    let mut rest = bytes;
    let (mut count, mut before) = (0, "");
    while !rest.is_empty() {
        let malformed = PropertyFault::Malformed(bytes.len() - rest.len());
        let Some((name, raw)) = wire::read(&mut rest) else { return Err(PropertyError::new(malformed)) };
        let Ok(name) = std::str::from_utf8(name) else { return Err(PropertyError::new(malformed)) };
        check_name(name).map_err(|fault| PropertyError::of(name, PropertyFault::Name(fault)))?;
        if name == before {
            return Err(PropertyError::of(name, PropertyFault::Twice));
        }
        if name < before || raw.value().is_none() {
            return Err(PropertyError::of(name, malformed));
        }
        count += 1;
        if count > MAX_PROPERTIES {
            return Err(PropertyError::of(name, PropertyFault::TooMany));
        }
        before = name;
    }
    Ok(())
}

/// The properties in bytes that were checked.
pub(crate) fn each(mut rest: &[u8]) -> impl Iterator<Item = (&str, Value<'_>)> {
    std::iter::from_fn(move || {
        let (name, raw) = wire::read(&mut rest)?;
        Some((std::str::from_utf8(name).ok()?, raw.value()?))
    })
}

/// The value of a property in bytes that were checked.
#[inline]
pub(crate) fn find<'a>(mut rest: &'a [u8], name: &str) -> Option<Value<'a>> {
    while let Some((found, raw)) = wire::read(&mut rest) {
        if found == name.as_bytes() {
            return raw.value();
        }
    }
    None
}
