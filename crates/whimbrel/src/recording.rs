//! Recordings of connections in the qlog format, one file per connection.

use std::borrow::Cow;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use whimbrel_proto::{ConnectionId, Side};

use crate::clock::time_of_day;

/// The environment variable that names the folder. Recording is off unless it is set.
const VARIABLE: &str = "WHIMBREL_QLOG_DIR";

/// The reference time in the first record. The protocol core knows no wall clock, so it leaves the time for this module.
const UNKNOWN_TIME: &str = r#""reference_time":0"#;

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
    /// The file to open, and the time at which the recording began, since 1970.
    Wanted(PathBuf, Duration),
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
        let began = time_of_day();
        let name = format!("{}-{side}-{:016x}.sqlog", began.as_millis(), id.0);
        Self::Wanted(folder.join(name), began)
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
        let mut records = Cow::Borrowed(records);
        if let Self::Wanted(path, began) = self {
            records = records.replacen(UNKNOWN_TIME, &reference_time(*began), 1).into();
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
            Self::Wanted(..) | Self::Ended => Ok(()),
        }
    }
}

/// Returns the field with the time to which all times in the recording are relative, in milliseconds since 1970.
fn reference_time(began: Duration) -> String {
    format!(r#""reference_time":{:.3}"#, began.as_secs_f64() * 1e3)
}
