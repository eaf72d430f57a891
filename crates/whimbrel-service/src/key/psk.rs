//! The pre-shared key: a further secret beside the identities.

use std::io;
use std::path::{Path, PathBuf};

use whimbrel::Secret;
use zeroize::Zeroizing;

use super::file::{KeyFileError, parse_digits, write_new};
use crate::private_file::{self, Exposure};

/// The environment variable that may hold the digits instead of a file.
const VARIABLE: &str = "WHIMBREL_PSK";

/// An error from reading a pre-shared key. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PskError {
    /// The file is missing or cannot be read.
    #[error("cannot read the pre-shared key in {path}: {make}: {error}", path = path.display(), make = make(path))]
    System {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file belongs to another user.
    #[error("permission denied on the pre-shared key in {}: it belongs to another user, so run as that user", .0.display())]
    Forbidden(PathBuf),
    /// The file holds something else.
    #[error("{path} holds no pre-shared key, which is 64 hexadecimal digits: {make}", path = .0.display(), make = make(.0))]
    NotAKey(PathBuf),
    /// Others can read or write the file.
    #[error("others can read the pre-shared key in {path}: run `chmod 600 {path}`", path = .0.display())]
    Exposed(PathBuf),
    /// The environment variable `WHIMBREL_PSK` holds something else.
    #[error("{VARIABLE} holds no pre-shared key: write 64 hexadecimal digits, or unset it")]
    Variable,
}

fn make(path: &Path) -> String {
    format!("`whimbrel key psk --out {}` makes one", path.display())
}

/// Reads the pre-shared key, 64 hexadecimal digits, from `file`. If no file is given, it is the value of the
/// environment variable `WHIMBREL_PSK`; if that is unset or empty, there is none.
///
/// # Errors
/// The file is missing or can be accessed by others, or the text is not a key.
pub fn read_psk(file: Option<&Path>) -> Result<Option<Secret>, PskError> {
    match (file, std::env::var_os(VARIABLE)) {
        (Some(file), _) => load(file).map(Some),
        (None, Some(text)) if !text.is_empty() => {
            let text = Zeroizing::new(text.into_encoded_bytes());
            parse(&text).ok_or(PskError::Variable).map(Some)
        }
        _ => Ok(None),
    }
}

fn load(file: &Path) -> Result<Secret, PskError> {
    let (text, exposure) = private_file::read(file).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => PskError::Forbidden(file.to_owned()),
        _ => PskError::System { path: file.to_owned(), error },
    })?;
    let key = parse(&text).ok_or_else(|| PskError::NotAKey(file.to_owned()))?;
    if exposure != Exposure::Private {
        return Err(PskError::Exposed(file.to_owned()));
    }
    Ok(key)
}

fn parse(text: &[u8]) -> Option<Secret> {
    parse_digits(std::str::from_utf8(text).ok()?.trim())
}

/// Writes a new pre-shared key into a new file that only its owner can read, and creates the missing folders.
///
/// # Errors
/// The file exists or cannot be written.
pub fn save_new_psk(file: &Path) -> Result<(), KeyFileError> {
    // An identity's secret is 32 bytes of the system's randomness, just like a pre-shared key.
    write_new(file, "", whimbrel::new_identity().secret())
}
