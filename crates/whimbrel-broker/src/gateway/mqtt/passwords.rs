//! Passwords of users.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use aws_lc_rs::hmac;

/// How long a successful check is remembered, so that reconnecting costs nothing.
const REMEMBERED: Duration = Duration::from_secs(600);

/// A password, hashed by Argon2.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

/// A text is no hash of a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is not an Argon2 password hash: make one with `whimbrel broker password`; it begins with $argon2id$"
)]
pub struct NoHash;

impl Password {
    /// Hashes a password.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn hash(password: &[u8]) -> Result<Self, NoHash> {
        let hash = Argon2::default().hash_password(password).map_err(|_| NoHash)?;
        Ok(Self(hash.to_string()))
    }

    /// The hash, as it stands in a file.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the password. It takes a while, and 19 MiB of memory.
    pub(super) fn is(&self, password: &[u8]) -> bool {
        let hash = PasswordHash::new(&self.0);
        hash.is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
    }
}

impl FromStr for Password {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        let hash = PasswordHash::new(text).map_err(|_| NoHash)?;
        let is_argon2 = hash.algorithm.as_str().starts_with("argon2") && hash.hash.is_some();
        is_argon2.then(|| Self(text.to_owned())).ok_or(NoHash)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// Checks that succeeded lately. Nothing of the passwords is kept but a tag under a key of this process.
pub(super) struct Checked {
    key: hmac::Key,
    tags: Mutex<BTreeMap<String, (hmac::Tag, Instant)>>,
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checked")
    }
}

impl Checked {
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        // Without random numbers there are no sessions, and no broker.
        aws_lc_rs::rand::fill(&mut key).ok();
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, &key), tags: Mutex::default() }
    }

    pub(super) fn remembers(&self, user: &str, hash: &Password, password: &[u8]) -> bool {
        let tags = self.tags();
        let Some((tag, at)) = tags.get(user) else { return false };
        let text = said(hash, password);
        at.elapsed() < REMEMBERED && hmac::verify(&self.key, &text, tag.as_ref()).is_ok()
    }

    /// Remembers a check. There are no more of them than users.
    pub(super) fn remember(&self, user: &str, hash: &Password, password: &[u8]) {
        let tag = hmac::sign(&self.key, &said(hash, password));
        self.tags().insert(user.to_owned(), (tag, Instant::now()));
    }

    /// Forgets the checks of users that there are no more.
    pub(super) fn retain(&self, mut is_user: impl FnMut(&str) -> bool) {
        self.tags().retain(|user, _| is_user(user));
    }

    fn tags(&self) -> MutexGuard<'_, BTreeMap<String, (hmac::Tag, Instant)>> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hash goes in, so that a changed password is not remembered.
fn said(hash: &Password, password: &[u8]) -> Vec<u8> {
    [hash.as_str().as_bytes(), &[0], password].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_recognised_and_a_success_remembered() {
        let password = Password::hash(b"cod").unwrap();
        let read: Password = password.as_str().parse().unwrap();
        assert!(read.is(b"cod") && !read.is(b"eel"));
        let checked = Checked::new();
        checked.remember("fisher", &read, b"cod");
        assert!(checked.remembers("fisher", &read, b"cod"));
        assert!(!checked.remembers("fisher", &read, b"eel") && !checked.remembers("other", &read, b"cod"));
        let changed = Password::hash(b"cod").unwrap();
        assert!(!checked.remembers("fisher", &changed, b"cod"), "the salt is another");
        for wrong in ["cod", "$argon2id$", "$pbkdf2-sha256$i=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo"] {
            assert!(wrong.parse::<Password>().is_err(), "{wrong}");
        }
    }
}
