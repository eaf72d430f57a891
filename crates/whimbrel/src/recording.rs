//! Recordings of connections in the qlog format, one file per connection.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use whimbrel_proto::{ConnectionId, Side};

use crate::clock::time_of_day;

/// The environment variable that names the folder. Recording is off unless it is set.
const VARIABLE: &str = "WHIMBREL_QLOG_DIR";

/// The length at which a recording ends, bytes, so that a peer cannot fill the disk.
const MOST_RECORDED: u64 = 1 << 30;

/// Returns the folder named by the environment.
pub(crate) fn from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// Creates the folder if it is missing. A new folder, like the files in it, is accessible only to its owner.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// The recording of a connection. Its file is opened with the first record.
pub(crate) enum Recording {
    Wanted(PathBuf),
    Open(File, u64),
    /// Writing failed, or the recording is long enough.
    Ended,
}

impl Recording {
    /// Prepares a recording. Its file is named by the time in milliseconds since 1970, the side, and the connection's
    /// ID.
    pub(crate) fn new(folder: &Path, side: Side, id: ConnectionId) -> Self {
        let side = match side {
            Side::Client => "client",
            Side::Server => "server",
        };
        let name = format!("{}-{side}-{:016x}.sqlog", time_of_day().as_millis(), id.0);
        Self::Wanted(folder.join(name))
    }

    /// Appends records. A write error, such as a full disk, ends the recording but not the connection.
    pub(crate) fn append(&mut self, records: &str) {
        if let Err(error) = self.try_append(records) {
            #[cfg(feature = "tracing")]
            tracing::warn!(%error, "the recording cannot be written");
            #[cfg(not(feature = "tracing"))]
            drop(error);
            *self = Self::Ended;
        }
    }

    fn try_append(&mut self, records: &str) -> io::Result<()> {
        if let Self::Wanted(path) = self {
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            *self = Self::Open(options.open(path)?, 0);
        }
        match self {
            Self::Open(file, written) => {
                file.write_all(records.as_bytes())?;
                *written += records.len() as u64;
                if *written >= MOST_RECORDED {
                    *self = Self::Ended;
                }
                Ok(())
            }
            Self::Wanted(_) | Self::Ended => Ok(()),
        }
    }
}
