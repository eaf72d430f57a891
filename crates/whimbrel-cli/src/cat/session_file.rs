//! The file that `--resume-from` reads.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use whimbrel::{SealError, SnapshotError, SuspendedMocket};
use whimbrel_service::private_file::{self, Exposure};
use zeroize::Zeroizing;

use super::options::CatOptions;
use crate::output::note;

/// Reads a session from a file. A session that is not sealed is as sensitive as the key.
///
/// # Errors
/// The file holds no usable session; the message says what it holds instead, and what to do.
pub(super) fn read(file: &Path, passphrase: Option<Zeroizing<String>>) -> anyhow::Result<SuspendedMocket> {
    let path = file.display();
    if file.is_dir() {
        bail!("{path} is a folder: name the file that --suspend-to wrote");
    }
    let (bytes, exposure) = private_file::read(file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "there is no session in {path}: name the file that --suspend-to wrote. It is deleted once its session has been resumed"
        ),
        _ => anyhow!("cannot read {path}: {error}. Name the file that --suspend-to wrote, as a user who can read it"),
    })?;
    if bytes.is_empty() {
        bail!("{path} is empty: name the file that --suspend-to wrote");
    }
    let Some(passphrase) = passphrase else {
        let state = SuspendedMocket::from_bytes(&bytes).map_err(|error| match error {
            SnapshotError::NotOne if is_sealed(&bytes) => {
                anyhow!("the session in {path} is sealed: give its passphrase, --passphrase-file FILE")
            }
            error => unusable(file, error),
        })?;
        if exposure != Exposure::Private {
            bail!("others can read the session in {path}, which is not sealed: run `chmod 600 {path}`");
        }
        return Ok(state);
    };
    SuspendedMocket::open(&bytes, &passphrase).map_err(|error| match error {
        SealError::NotSealed if SuspendedMocket::from_bytes(&bytes).is_ok() => {
            anyhow!("the session in {path} is not sealed: leave out --passphrase-file")
        }
        SealError::NotSealed => unusable(file, SnapshotError::NotOne),
        SealError::DoesNotOpen => anyhow!(
            "the session in {path} cannot be opened: give the passphrase it was sealed with, or a complete copy of the file"
        ),
        SealError::State(error) => unusable(file, error),
        other => anyhow::Error::new(other).context(format!("cannot open the session in {path}")),
    })
}

/// Returns whether the session is sealed, which can be seen without the passphrase.
fn is_sealed(bytes: &[u8]) -> bool {
    SuspendedMocket::open(bytes, "").is_err_and(|error| !matches!(error, SealError::NotSealed))
}

fn unusable(file: &Path, error: SnapshotError) -> anyhow::Error {
    let path = file.display();
    match error {
        SnapshotError::NotOne => anyhow!("{path} holds no session: name the file that --suspend-to wrote"),
        SnapshotError::Version { .. } => {
            anyhow::Error::new(error).context(format!("cannot resume from {path}"))
        }
        _ => anyhow!(
            "the session in {path} is damaged or cut short and cannot be resumed: copy the file again from where it was written, or connect \
             anew"
        ),
    }
}

/// The passphrase under which sessions are sealed.
///
/// # Errors
/// The file cannot be read or is empty.
pub(super) fn passphrase(how: &CatOptions) -> anyhow::Result<Option<Zeroizing<String>>> {
    let Some(file) = &how.passphrase_file else { return Ok(None) };
    let path = file.display();
    let (bytes, exposure) = private_file::read(file).with_context(|| format!("cannot read {path}"))?;
    let text = std::str::from_utf8(&bytes)
        .with_context(|| format!("{path} is not text: write the passphrase into it"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if exposure != Exposure::Private {
        note(format_args!("others can read the passphrase in {path}: run `chmod 600 {path}`"));
    }
    if text.is_empty() {
        bail!("{path} is empty: write the passphrase into it");
    }
    Ok(Some(Zeroizing::new(text.to_owned())))
}
