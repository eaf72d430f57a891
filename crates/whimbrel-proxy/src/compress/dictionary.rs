//! Dictionaries: what small records have in common, so that already the first one shrinks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use zstd_safe::{CDict, DDict};

/// The smallest one that is of any use.
pub(super) const SMALLEST: usize = 256;
/// The first bytes of a dictionary of Zstandard (RFC 8878 section 5).
const MAGIC: [u8; 4] = 0xec30_a437_u32.to_le_bytes();

/// The first 8 bytes of the SHA-256 of a dictionary. Both ends compare it, so that they use the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DictionaryId(pub [u8; 8]);

impl fmt::Display for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A dictionary of Zstandard. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Dictionary {
    id: DictionaryId,
    bytes: Arc<[u8]>,
}

/// Bytes that are no dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDictionary {
    /// They are something else.
    #[error("it is not a dictionary: make one with `whimbrel proxy train`")]
    NoDictionary,
    /// They are too many.
    #[error("it has more than 256 KiB: make a smaller one with `whimbrel proxy train --size 16KB`")]
    TooLarge,
}

impl Dictionary {
    /// The most bytes of a dictionary.
    pub const LARGEST: usize = 256 * 1024;

    /// Creates a dictionary of these bytes.
    ///
    /// # Errors
    /// They are no dictionary, or too many.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidDictionary> {
        if bytes.len() > Self::LARGEST {
            return Err(InvalidDictionary::TooLarge);
        }
        let is_usable = || DDict::try_create(bytes).is_some() && CDict::try_create(bytes, 3).is_some();
        // Zstandard takes what is shorter than this for mere content.
        if bytes.len() < SMALLEST || !bytes.starts_with(&MAGIC) || !is_usable() {
            return Err(InvalidDictionary::NoDictionary);
        }
        let mut id = [0; 8];
        id.copy_from_slice(&digest(&SHA256, bytes).as_ref()[..8]);
        Ok(Self { id: DictionaryId(id), bytes: bytes.into() })
    }

    /// Returns the id, which both ends compare.
    pub fn id(&self) -> DictionaryId {
        self.id
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The dictionary, prepared for decoders. `None`: there is no memory for it.
    pub(super) fn for_decoding(&self) -> Option<&'static DDict<'static>> {
        let mut prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match prepared.entry(self.id) {
            Entry::Occupied(made) => made.get(),
            Entry::Vacant(place) => place.insert(Box::leak(Box::new(DDict::try_create(&self.bytes)?))),
        })
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({}, {} bytes)", self.id, self.bytes.len())
    }
}

/// Dictionaries that were prepared. Decoders share them and refer to them, so they live as long as the process: one for
/// each file that its settings have named.
static PREPARED: Mutex<BTreeMap<DictionaryId, &'static DDict<'static>>> = Mutex::new(BTreeMap::new());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_dictionary_is_refused() {
        for wrong in [&b""[..], b"<event/>", &MAGIC, &[&MAGIC[..], &[0xff; 300]].concat()] {
            assert_eq!(Dictionary::new(wrong), Err(InvalidDictionary::NoDictionary), "{wrong:?}");
        }
        assert_eq!(Dictionary::new(&vec![0; Dictionary::LARGEST + 1]), Err(InvalidDictionary::TooLarge));
    }
}
