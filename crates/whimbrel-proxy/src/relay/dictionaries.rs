//! The dictionaries that the settings name.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::compress::{Dictionary, DictionaryId};

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
    let said = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            "there is no such file: `whimbrel proxy train` makes one, and both ends need a copy".to_owned()
        }
        _ => error.to_string(),
    };
    // A pipe or a device may give nothing for ever, or have no end.
    if !std::fs::metadata(path).map_err(said)?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(said)?;
    file.take(Dictionary::LARGEST as u64 + 1).read_to_end(&mut bytes).map_err(said)?;
    Dictionary::new(&bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_what_has_no_end_is_not_read() {
        let refused = |path: &str| read(Path::new(path)).unwrap_err();
        assert_eq!(refused("/dev/zero"), "it is not a regular file");
        assert_eq!(refused("/"), "it is not a regular file");
        assert!(refused("/nowhere/cot.dict").contains("there is no such file"));
    }
}
