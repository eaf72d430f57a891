//! The progress of an exchange, which goes with a session to the process that continues it.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// The progress; see the module documentation.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub(super) struct Progress {
    /// Whether the exchange carries bytes, not messages.
    bytes: bool,
    /// The byte stream for our input, once it is open.
    pub(super) out: Option<u64>,
    /// Whether the peer was told that our input has ended.
    pub(super) said_all: bool,
    /// Whether the peer's input has ended and all of it has arrived. The process that received it writes it.
    pub(super) heard_all: bool,
    /// Whether the peer was told that all of its input was written.
    pub(super) said_written: bool,
    /// Whether the peer has written all of our input.
    pub(super) heard_written: bool,
}

impl Progress {
    /// The progress of an exchange that begins.
    pub(super) fn begin(bytes: bool) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// Saves the progress, with the input that was read and not sent.
    pub(super) fn save(&self, unsent: &[u8]) -> Vec<u8> {
        // Serialising plain data into memory does not fail.
        let mut saved = serde_json::to_vec(self).unwrap_or_default();
        saved.push(b'\n');
        saved.extend_from_slice(unsent);
        saved
    }

    /// Loads what [`Self::save`] saved, for an exchange of bytes or of messages.
    ///
    /// # Errors
    /// Another program saved it, or the exchange was of the other kind.
    pub(super) fn load(saved: &[u8], bytes: bool) -> anyhow::Result<(Self, &[u8])> {
        let at = saved.iter().position(|byte| *byte == b'\n');
        let parts = at.map(|at| (&saved[..at], &saved[at + 1..]));
        let (progress, unsent) = parts.context(
            "this session was not left by whimbrel cat: resume it with the program that suspended it",
        )?;
        let progress: Self = serde_json::from_slice(progress).context(
            "this session was left by another version of whimbrel cat: resume it with that version",
        )?;
        match (progress.bytes, bytes) {
            (true, false) => bail!("this session carries bytes: add --bytes"),
            (false, true) => bail!("this session carries messages: leave out --bytes"),
            _ => Ok((progress, unsent)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_loaded_for_the_same_kind_only() {
        let progress = Progress { out: Some(7), said_all: true, ..Progress::begin(true) };
        let saved = progress.save(b"a\nb");
        assert_eq!(Progress::load(&saved, true).unwrap(), (progress, &b"a\nb"[..]));
        for (saved, bytes, hint) in [
            (&saved[..], false, "add --bytes"),
            (&Progress::begin(false).save(b""), true, "leave out --bytes"),
            (b"", false, "not left by"),
            (b"else\n", false, "another version"),
        ] {
            let error = Progress::load(saved, bytes).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
