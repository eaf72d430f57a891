//! The section of a configuration file about a service's interfaces.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::activity::ActivityOptions;
use crate::service_options::ServiceOptions;

/// The interfaces of a service, as a configuration file names them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServiceSettings {
    /// See [`ServiceOptions::control`](field@ServiceOptions::control).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<PathBuf>,
    /// See [`ServiceOptions::metrics`](field@ServiceOptions::metrics).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<SocketAddr>,
    /// See [`ServiceOptions::activity`](field@ServiceOptions::activity).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityOptions>,
}

impl ServiceSettings {
    /// Returns the options of a service with this name.
    pub fn options(self, name: impl Into<String>) -> ServiceOptions {
        let Self { control, metrics, activity } = self;
        let mut options = ServiceOptions::new(name);
        (options.control, options.metrics, options.activity) = (control, metrics, activity);
        options
    }
}
