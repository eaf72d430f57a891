//! The pre-shared key: a further secret beside the identities.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use whimbrel::Secret;
use zeroize::Zeroizing;

use super::file::{parse_digits, write_new};
use crate::private_file::{self, Exposure};

/// The environment variable that may hold the digits instead of a file.
const VARIABLE: &str = "WHIMBREL_PSK";

/// Options of a pre-shared key, for both ends.
#[derive(Args, Clone, Debug)]
pub(crate) struct PskOptions {
    /// A file with a pre-shared key, 64 hexadecimal digits; `whimbrel key psk` makes one. The peer must have the same one, beside its own
    /// key. Connecting takes a round trip more, since nothing is sent early [default: the value of WHIMBREL_PSK, else none].
    #[arg(long, value_name = "FILE")]
    psk: Option<PathBuf>,
}

impl PskOptions {
    /// Reads the key from the file, or else from the environment.
    ///
    /// # Errors
    /// The text is not a key, or others can read the file.
    pub(crate) fn read(&self) -> anyhow::Result<Option<Secret>> {
        match (&self.psk, std::env::var_os(VARIABLE)) {
            (Some(file), _) => load(file).map(Some),
            (None, Some(text)) if !text.is_empty() => {
                let text = Zeroizing::new(text.into_encoded_bytes());
                let key = std::str::from_utf8(&text).ok().and_then(|text| parse_digits(text.trim()));
                let key = key.with_context(|| {
                    format!("{VARIABLE} holds no pre-shared key: write 64 hexadecimal digits, or unset it")
                })?;
                Ok(Some(Secret::new(*key)))
            }
            _ => Ok(None),
        }
    }
}

fn load(file: &Path) -> anyhow::Result<Secret> {
    let path = file.display();
    let make = || format!("`whimbrel key psk --out {path}` makes one");
    let (text, exposure) = private_file::read(file)
        .with_context(|| format!("cannot read the pre-shared key in {path}: {}", make()))?;
    let key = std::str::from_utf8(&text).ok().and_then(|text| parse_digits(text.trim()));
    let key = key.with_context(|| {
        format!("{path} holds no pre-shared key, which is 64 hexadecimal digits: {}", make())
    })?;
    if exposure != Exposure::Private {
        bail!("others can read the pre-shared key in {path}: run `chmod 600 {path}`");
    }
    Ok(Secret::new(*key))
}

/// Writes a new key into a new file that only its owner can read.
///
/// # Errors
/// The file exists or cannot be written.
pub(super) fn make_new(file: &Path) -> anyhow::Result<()> {
    // An identity's secret is 32 bytes of the system's randomness, just like a pre-shared key.
    Ok(write_new(file, "", whimbrel::new_identity().secret())?)
}
