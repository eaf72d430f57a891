//! Recordings of connections in qlog's form: a file each.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use whimbrel_proto::{ConnectionId, Side};

use crate::endpoint::time_of_day;

/// Names the folder. Off unless it is set.
const VARIABLE: &str = "WHIMBREL_QLOG_DIR";

/// A recording ends there, bytes: a peer must not fill the disk.
const MOST_RECORDED: u64 = 1 << 30;

/// The folder that the environment asks for.
pub(crate) fn from_environment() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// Makes the folder if it is missing; one that is made is for its owner alone, as the files in it.
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
    /// It could not be written, or is long enough.
    Ended,
}

impl Recording {
    /// A file of its own: the time, in milliseconds since 1970, the side, and the connection's id.
    pub(crate) fn new(folder: &Path, side: Side, id: ConnectionId) -> Self {
        let side = match side {
            Side::Client => "client",
            Side::Server => "server",
        };
        let name = format!("{}-{side}-{:016x}.sqlog", time_of_day().as_millis(), id.0);
        Self::Wanted(folder.join(name))
    }

    /// Appends records. A full disk does not stop a connection.
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
