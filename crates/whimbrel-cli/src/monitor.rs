//! Options to monitor and control a long-running command.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use whimbrel::Endpoint;
use whimbrel_service::{ActivityOptions, Command, Service, ServiceOptions, StoppedBy};

use crate::output::note;

/// The monitoring and control options of long-running commands.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MonitorOptions {
    /// Create a control socket at this path, for `whimbrel status`, `reload` and `stop`. Only this user can use it.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Serve /metrics for Prometheus, and /healthz, over HTTP on this address. Anyone who can reach the address can
    /// read them.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// Log activity to this file, as one JSON line per event. The file is rotated at 16 MiB; four older ones are
    /// kept.
    #[arg(long, value_name = "FILE")]
    activity: Option<PathBuf>,
}

impl MonitorOptions {
    /// Starts the requested interfaces, and tells systemd that the command is ready.
    ///
    /// # Errors
    /// A socket or file cannot be created.
    pub(crate) async fn start(
        &self,
        name: &str,
        endpoint: &Endpoint,
        more: impl Fn() -> serde_json::Value + Send + Sync + 'static,
    ) -> anyhow::Result<Service> {
        let mut options = ServiceOptions::new(name);
        options.control = self.control.clone();
        options.metrics = self.metrics;
        options.activity = self.activity.clone().map(ActivityOptions::new);
        let service = Service::start(options, endpoint, more).await?;
        if let Some(address) = service.metrics_address() {
            note(format_args!("metrics on http://{address}/metrics"));
        }
        Ok(service)
    }
}

/// Waits until a signal or the control socket stops the command. A reload request is refused, since these commands
/// have no configuration file.
pub(crate) async fn until_stopped(service: &mut Service) -> StoppedBy {
    loop {
        match service.next().await {
            Command::Stop(by) => return by,
            Command::Reload(asked) => asked.failed("this command has no configuration to read again"),
            _ => {}
        }
    }
}
