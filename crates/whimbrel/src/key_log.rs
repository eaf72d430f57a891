//! The key log: a file of keys with which a packet dissector can read connections (docs/dissector.md).

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::lock::lock;

/// The environment variable that names the file. The key log is off unless it is set.
const VARIABLE: &str = "WHIMBREL_KEYLOGFILE";

/// Returns the file named by the environment.
pub(crate) fn from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// An open key log, shared by the connections of an endpoint.
pub(crate) struct KeyLog(Mutex<File>);

impl KeyLog {
    /// Opens the file for appending. A new file is accessible only to its owner.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self(Mutex::new(options.open(path)?)))
    }

    /// Appends a line with a single write call, so that processes may share the file. A write error, such as a full
    /// disk, does not stop a connection.
    pub(crate) fn append(&self, mut line: String) {
        line.push('\n');
        if let Err(error) = lock(&self.0).write_all(line.as_bytes()) {
            #[cfg(feature = "tracing")]
            tracing::warn!(%error, "the key log cannot be written");
            #[cfg(not(feature = "tracing"))]
            drop(error);
        }
    }
}
