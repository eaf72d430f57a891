//! The sources of the settings of a command that listens.

use std::path::Path;

use super::file::Settings;
use crate::dial::{ListenArgs, TransportOptions};
use crate::monitor::MonitorOptions;
use crate::process::Misused;

/// The configuration file, if there is one, and the options of the command line, which win over it.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) listen: ListenArgs,
    pub(crate) transport: TransportOptions,
    pub(crate) monitor: MonitorOptions,
    /// The most bytes that may wait in the send queue, if the command line says so.
    pub(crate) queue: Option<u64>,
}

impl Sources {
    /// Returns the configuration file.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.listen.config.as_deref()
    }

    /// Reads the file, if there is one, and applies the command line.
    ///
    /// # Errors
    /// The file cannot be read, or has a mistake.
    pub(crate) fn read(&self) -> Result<Settings, Misused> {
        let mut settings = self.file().map_or_else(|| Ok(Settings::default()), Settings::read)?;
        self.listen.apply(&mut settings.listen);
        self.transport.apply(&mut settings.transport);
        self.monitor.apply(&mut settings.service);
        if let Some(queue) = self.queue {
            settings.transport.session.send_queue_bytes = queue;
        }
        Ok(settings)
    }
}
