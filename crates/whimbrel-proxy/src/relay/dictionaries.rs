//! The dictionaries that the settings name.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::compress::{Dictionary, DictionaryId, InvalidDictionary};

/// The dictionaries that the settings name.
#[derive(Clone, Debug, Default)]
pub struct Dictionaries(BTreeMap<String, Dictionary>);

/// A dictionary that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the dictionary `{name}`, {}: {why}", .path.display())]
pub struct DictionaryError {
    /// Its name in the settings.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The reason, and what to do.
    pub why: String,
}

impl Dictionaries {
    /// Reads the files that have these names in the settings.
    ///
    /// # Errors
    /// One cannot be read, or is no dictionary.
    pub fn read(files: &BTreeMap<String, PathBuf>) -> Result<Self, DictionaryError> {
        let read = |(name, path): (&String, &PathBuf)| {
            let dictionary =
                read(path).map_err(|why| DictionaryError { name: name.clone(), path: path.clone(), why })?;
            Ok((name.clone(), dictionary))
        };
        files.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The one with this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Dictionary> {
        self.0.get(name)
    }

    /// The one with this id, which a peer names.
    pub(crate) fn of_id(&self, id: DictionaryId) -> Option<&Dictionary> {
        self.0.values().find(|dictionary| dictionary.id() == id)
    }
}

fn read(path: &Path) -> Result<Dictionary, String> {
    let is_large = std::fs::metadata(path).is_ok_and(|file| file.len() > 1 << 20);
    if is_large {
        return Err(InvalidDictionary::TooLarge.to_string());
    }
    let bytes = std::fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no such file: `whimbrel proxy train` makes one, and both ends need a copy".to_owned()
        }
        _ => error.to_string(),
    })?;
    Dictionary::new(&bytes).map_err(|error| error.to_string())
}
