//! The file in which a measurement leaves its ticket for the next.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::Context;
use whimbrel::Endpoint;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct TicketFile(PathBuf);

impl TicketFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Gives the endpoint what an earlier measurement left, if one did.
    pub(super) fn load(&self, endpoint: &Endpoint) -> anyhow::Result<()> {
        match fs::read(&self.0) {
            Ok(exported) => {
                endpoint.import_tickets(&exported).with_context(|| self.0.display().to_string())?;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.0.display())),
        }
    }

    /// Leaves what the endpoint has, readable by its owner only: a ticket is as secret as the key.
    pub(super) fn save(&self, endpoint: &Endpoint) -> anyhow::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&self.0).and_then(|mut file| file.write_all(&endpoint.export_tickets()));
        written.with_context(|| format!("cannot write {}", self.0.display()))
    }
}
