//! The key file: one line of text with a prefix that tells what it is.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use whimbrel::{Identity, Secret};
use zeroize::Zeroizing;

use super::places::{NoPlace, default_key_file};
use crate::private_file::{self, Exposure, make_folders, private};

/// The prefix of the line; 64 hexadecimal digits follow.
const PREFIX: &str = "whimbrel-secret-key ";

/// An error from reading or writing a key file. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file does not exist.
    #[error("there is no key file {path}: make one with `whimbrel key new --out {path}`", path = .0.display())]
    Missing(PathBuf),
    /// The file exists, and a key is never overwritten.
    #[error("{} exists and is not overwritten: remove it first, or choose another with --out", .0.display())]
    Exists(PathBuf),
    /// The file's folder does not exist. Only the folder of the default file is made.
    #[error("there is no folder {}: make it first, or name a file elsewhere", .0.display())]
    NoFolder(PathBuf),
    /// Others may read the file.
    #[error("others can read the secret key in {path}: run `chmod 600 {path}`", path = .0.display())]
    Exposed(PathBuf),
    /// The file belongs to another user.
    #[error("permission denied on the key file {}: it belongs to another user, so run as that user", .0.display())]
    Forbidden(PathBuf),
    /// The file holds something else.
    #[error("{} is not a whimbrel key file: make one with `whimbrel key new --out FILE`", .0.display())]
    NotAKey(PathBuf),
    /// The system reported an error.
    #[error("cannot use the key file {path}: {1}; check the path, or name another file", path = .0.display())]
    System(PathBuf, io::Error),
    /// No file was given, and there is no default place.
    #[error(transparent)]
    NoPlace(#[from] NoPlace),
}

/// Reads a key.
///
/// # Errors
/// The file is missing, holds no key, or is readable by others.
pub fn load(path: &Path) -> Result<Identity, KeyFileError> {
    let (text, exposure) = private_file::read(path).map_err(|error| unreadable(path, error))?;
    let secret = parse(&text).ok_or_else(|| KeyFileError::NotAKey(path.to_owned()))?;
    if exposure != Exposure::Private {
        return Err(KeyFileError::Exposed(path.to_owned()));
    }
    Ok(Identity::from_secret(*secret.bytes()))
}

fn unreadable(path: &Path, error: io::Error) -> KeyFileError {
    match error.kind() {
        io::ErrorKind::NotFound => KeyFileError::Missing(path.to_owned()),
        io::ErrorKind::PermissionDenied => KeyFileError::Forbidden(path.to_owned()),
        _ => KeyFileError::System(path.to_owned(), error),
    }
}

/// Writes a key into a new file that only its owner can read.
///
/// # Errors
/// The file exists, its folder does not, or it cannot be written.
pub fn save_new(path: &Path, identity: &Identity) -> Result<(), KeyFileError> {
    write_new(path, PREFIX, identity.secret())
}

/// Writes a key like [`save_new`], and makes missing folders. It is for the default file, whose folder nobody can have
/// mistyped.
///
/// # Errors
/// The file exists or cannot be written.
pub fn save_new_with_folders(path: &Path, identity: &Identity) -> Result<(), KeyFileError> {
    if let Some(folder) = path.parent() {
        make_folders(folder).map_err(|error| {
            let why = format!("the folder {} cannot be made: {error}", folder.display());
            KeyFileError::System(path.to_owned(), io::Error::other(why))
        })?;
    }
    save_new(path, identity)
}

/// Writes a line of `prefix` and the digits of a secret into a new file.
pub(super) fn write_new(path: &Path, prefix: &str, secret: &[u8; 32]) -> Result<(), KeyFileError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeyFileError::Exists(path.to_owned()),
        io::ErrorKind::NotFound => {
            KeyFileError::NoFolder(path.parent().unwrap_or_else(|| Path::new("")).to_owned())
        }
        _ => KeyFileError::System(path.to_owned(), error),
    };
    let mut options = OpenOptions::new();
    let mut file = private(options.write(true).create_new(true)).open(path).map_err(failed)?;
    let digits = digits(secret);
    let written = [prefix, &digits, "\n"].iter().try_for_each(|part| file.write_all(part.as_bytes()));
    written.and_then(|()| file.sync_all()).map_err(failed)
}

/// Returns the key in `file`. If no file is given, it is the key at the default place, or else a new one for this
/// process only. The returned flag is true if the key is only for this process.
///
/// # Errors
/// See [`load`]; a file that was given must exist.
pub fn own_or_temporary(file: Option<&Path>) -> Result<(Identity, bool), KeyFileError> {
    if let Some(file) = file {
        return Ok((load(file)?, false));
    }
    let temporary = || (whimbrel::new_identity(), true);
    let Ok(file) = default_key_file() else { return Ok(temporary()) };
    match load(&file) {
        Ok(identity) => Ok((identity, false)),
        Err(KeyFileError::Missing(_)) => Ok(temporary()),
        Err(error) => Err(error),
    }
}

/// Returns the key in `file`, or else at the default place. A key that is missing is made. The returned flag is true if
/// it was.
///
/// # Errors
/// See [`load`] and [`save_new`]; or there is no default place.
pub fn own_or_new(file: Option<&Path>) -> Result<(Identity, bool), KeyFileError> {
    let path = file.map_or_else(default_key_file, |file| Ok(file.to_owned()))?;
    match load(&path) {
        Err(KeyFileError::Missing(_)) => {}
        loaded => return loaded.map(|identity| (identity, false)),
    }
    let identity = whimbrel::new_identity();
    match file {
        Some(_) => save_new(&path, &identity)?,
        None => save_new_with_folders(&path, &identity)?,
    }
    Ok((identity, true))
}

fn parse(text: &[u8]) -> Option<Secret> {
    parse_digits(std::str::from_utf8(text).ok()?.strip_prefix(PREFIX)?.trim_end())
}

pub(super) fn digits(secret: &[u8; 32]) -> Zeroizing<String> {
    // The full capacity is reserved at once, because a buffer that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(64));
    for half in secret.iter().flat_map(|byte| [byte >> 4, byte & 0xf]) {
        text.extend(char::from_digit(half.into(), 16));
    }
    text
}

pub(super) fn parse_digits(text: &str) -> Option<Secret> {
    if text.len() != 64 {
        return None;
    }
    let mut secret = Zeroizing::new([0; 32]);
    for (byte, pair) in secret.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(Secret::copied(&secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_user_is_said_to_be_one() {
        let why = |kind: io::ErrorKind| unreadable(Path::new("key"), kind.into()).to_string();
        assert!(why(io::ErrorKind::PermissionDenied).contains("run as that user"));
        assert!(why(io::ErrorKind::NotFound).contains("whimbrel key new"));
    }

    #[test]
    fn anything_else_is_no_key() {
        let good = format!("{PREFIX}{}\n", "0f".repeat(32));
        assert_eq!(parse(good.as_bytes()).as_ref().map(Secret::bytes), Some(&[15; 32]));
        assert_eq!(*digits(&[0xa5; 32]), "a5".repeat(32));
        let short = &good[..good.len() - 2];
        for bad in ["", "whimbrel-secret-key ", short, &good.replace("0f", "0g"), &good.to_uppercase()] {
            assert!(parse(bad.as_bytes()).is_none(), "{bad}");
        }
        assert!(parse(&[0xff; 80]).is_none());
    }
}
