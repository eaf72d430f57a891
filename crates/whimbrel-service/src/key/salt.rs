//! The salt of a listener's reset tokens. It is stored beside the key, so that peers notice at once when the program
//! was restarted.
//!
//! Processes with the same key must not use the same salt at the same time: each would answer for the other's
//! connections. So there is a file for each key and address, and the process that uses it holds a lock on it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use whimbrel::Secret;
use zeroize::Zeroizing;

use super::file::{digits, parse_digits};
use crate::notice::Notice;
use crate::private_file::{private, shut};

/// The prefix of the line; 64 hexadecimal digits follow.
const PREFIX: &str = "whimbrel-reset-salt ";
/// The length of the line.
const LENGTH: usize = PREFIX.len() + 64 + 1;

/// The salt for listening with this key at this address, before it is known whether the address can be used.
pub(crate) struct ResetSalt {
    path: PathBuf,
    taken: io::Result<Taken>,
}

struct Taken {
    salt: Secret,
    /// Whether the file was created now.
    is_new: bool,
}

impl ResetSalt {
    /// Takes the salt; `None` for port 0, because after a restart the port is another one.
    pub(crate) fn take(key_file: &Path, address: SocketAddr) -> Option<Self> {
        if address.port() == 0 {
            return None;
        }
        let path = place(key_file, address);
        let taken = take(&path);
        Some(Self { path, taken })
    }

    /// The salt; `None` if it cannot be used. Peers then notice a restart late, which has no other effect.
    pub(crate) fn value(&self) -> Option<Secret> {
        self.taken.as_ref().ok().map(|taken| taken.salt.clone())
    }

    /// Keeps the salt of a process that listens, and tells if it cannot be used.
    pub(crate) fn keep(self, tell: impl Fn(Notice)) {
        if let Err(error) = self.taken {
            tell(Notice::SaltUnusable { path: self.path, error });
        }
    }

    /// Discards the salt of a process that cannot listen, with the file if it was created now.
    pub(crate) fn discard(self) {
        if self.taken.is_ok_and(|taken| taken.is_new) {
            fs::remove_file(self.path).ok();
        }
    }
}

/// The path `KEY.salt-ADDRESS-PORT`, without a colon in it.
fn place(key_file: &Path, address: SocketAddr) -> PathBuf {
    let mut path = key_file.as_os_str().to_owned();
    path.push(format!(".salt-{}-{}", address.ip().to_string().replace(':', "_"), address.port()));
    path.into()
}

fn take(path: &Path) -> io::Result<Taken> {
    let mut options = OpenOptions::new();
    let options = private(options.read(true).write(true));
    let (mut file, is_new) = match options.create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            (options.create_new(false).create(true).truncate(false).open(path)?, false)
        }
        made => (made?, true),
    };
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("another process uses it, and two cannot share it"),
        TryLockError::Error(error) => error,
    })?;
    shut(&file)?;
    let salt = read_or_make(&mut file)?;
    // The lock lasts as long as the process, or until another takes its service over.
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    Ok(Taken { salt, is_new })
}

/// The files whose locks this process holds.
static LOCKED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Gives up the locks on all reset salts of this process, so that another process can take its place. Do not listen with the endpoints that
/// used them afterwards.
pub fn release_reset_salts() {
    LOCKED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn read_or_make(file: &mut File) -> io::Result<Secret> {
    // With room to spare, because a buffer that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(2 * LENGTH));
    file.read_to_string(&mut text)?;
    if let Some(salt) = text.strip_prefix(PREFIX).and_then(|rest| parse_digits(rest.trim_end())) {
        return Ok(salt);
    }
    // A file that was cut off while being written is rewritten; any other content is left alone.
    if !text.starts_with(PREFIX) && !PREFIX.starts_with(&**text) {
        return Err(io::Error::other("it holds something else: remove it"));
    }
    let salt = Secret::copied(whimbrel::new_identity().secret());
    file.rewind()?;
    file.set_len(0)?;
    let mut line = Zeroizing::new(String::with_capacity(LENGTH));
    [PREFIX, &digits(salt.bytes()), "\n"].into_iter().for_each(|part| line.push_str(part));
    file.write_all(line.as_bytes())?;
    file.sync_all()?;
    Ok(salt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_salt_stays_and_no_two_have_it_at_a_time() {
        let key = std::env::temp_dir().join(format!("whimbrel-salt-{}", std::process::id()));
        let path = place(&key, address("[::]:4433"));
        assert!(path.display().to_string().ends_with(".salt-__-4433"));
        let mut file = File::create_new(&path).unwrap();
        let salt = read_or_make(&mut file).unwrap();
        drop(file);
        assert_eq!(take(&path).unwrap().salt.bytes(), salt.bytes(), "it stays");
        assert!(take(&path).err().unwrap().to_string().contains("another process"), "it is in use");
        let other = place(&key, address("[::]:4434"));
        assert_ne!(take(&other).unwrap().salt.bytes(), salt.bytes(), "another listener has another");
        assert!(ResetSalt::take(&key, address("127.0.0.1:0")).is_none());
        let in_vain = ResetSalt::take(&key, address("127.0.0.1:4437")).unwrap();
        let made = in_vain.path.clone();
        assert!(in_vain.value().is_some() && made.exists());
        in_vain.discard();
        assert!(!made.exists(), "it was new");
        ResetSalt::take(&key, address("[::]:4433")).unwrap().discard();
        assert!(path.exists(), "it was there before");
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&other).unwrap().permissions())
                & 0o777,
            0o600
        );
        let torn = place(&key, address("[::]:4435"));
        std::fs::write(&torn, &PREFIX[..7]).unwrap();
        take(&torn).unwrap();
        let foreign = place(&key, address("[::]:4436"));
        std::fs::write(&foreign, "notes").unwrap();
        assert!(take(&foreign).is_err() && std::fs::read(&foreign).unwrap() == b"notes");
        for path in [path, other, torn, foreign] {
            std::fs::remove_file(path).unwrap();
        }
    }
}
