//! The interfaces that a service offers.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::activity::ActivityOptions;
use crate::dashboard::DashboardOptions;

/// The interfaces that a service offers. Default: none, except that SIGINT and SIGTERM are
/// commands to stop, and that systemd is notified if it started the service.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// The name of the service.
    pub name: String,
    /// The version of the service, for its status and metrics. Default: empty, and no version is shown.
    pub version: String,
    /// The path of the control socket, which is created with mode 0600.
    pub control: Option<PathBuf>,
    /// The address on which metrics are served over HTTP. Anyone who can reach it can read them.
    pub metrics: Option<SocketAddr>,
    /// The address on which the dashboard is served over HTTP. Anyone who can reach it sees the status.
    pub dashboard: Option<DashboardOptions>,
    /// The activity log's file, and the amount that is kept.
    pub activity: Option<ActivityOptions>,
    /// Whether SIGHUP means [`Command::Reload`](crate::Command::Reload). Default false: SIGHUP ends the process, as when its terminal closes.
    pub reload_on_hangup: bool,
    /// The configuration file. Whenever it was saved, that means [`Command::Reload`](crate::Command::Reload). Default: no file is watched.
    pub watch: Option<PathBuf>,
}

impl ServiceOptions {
    /// Options with a name only.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets [`version`](field@ServiceOptions::version), for example to `env!("CARGO_PKG_VERSION")`.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets [`control`](field@ServiceOptions::control).
    #[must_use]
    pub fn control(mut self, path: impl Into<PathBuf>) -> Self {
        self.control = Some(path.into());
        self
    }

    /// Sets [`metrics`](field@ServiceOptions::metrics).
    #[must_use]
    pub fn metrics(mut self, address: SocketAddr) -> Self {
        self.metrics = Some(address);
        self
    }

    /// Sets [`dashboard`](field@ServiceOptions::dashboard).
    #[must_use]
    pub fn dashboard(mut self, options: DashboardOptions) -> Self {
        self.dashboard = Some(options);
        self
    }

    /// Sets [`activity`](field@ServiceOptions::activity).
    #[must_use]
    pub fn activity(mut self, options: ActivityOptions) -> Self {
        self.activity = Some(options);
        self
    }

    /// Sets [`watch`](field@ServiceOptions::watch).
    #[must_use]
    pub fn watch(mut self, file: impl Into<PathBuf>) -> Self {
        self.watch = Some(file.into());
        self
    }

    /// Sets [`reload_on_hangup`](field@ServiceOptions::reload_on_hangup).
    #[must_use]
    pub fn reload_on_hangup(mut self) -> Self {
        self.reload_on_hangup = true;
        self
    }
}
