//! How a long-running command is watched and steered while it runs.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use whimbrel::Endpoint;
use whimbrel_service::{ActivityOptions, Command, Service, ServiceOptions};

use crate::output::note;
use crate::process::Interrupted;

/// Options of long-running commands.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FaceOptions {
    /// Make a control socket here, for `whimbrel status`, `reload` and `stop`. Only this user may use it.
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Serve metrics for Prometheus over HTTP here: /metrics, and /healthz. Whoever reaches the address can read them.
    #[arg(long, value_name = "ADDR")]
    metrics: Option<SocketAddr>,
    /// Log what happens to this file, a line of JSON each. It is put aside at 16 MiB; four older ones are kept.
    #[arg(long, value_name = "FILE")]
    activity: Option<PathBuf>,
}

impl FaceOptions {
    /// Starts what was asked for, and tells systemd that the command is ready.
    ///
    /// # Errors
    /// A socket or file cannot be made.
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

/// Waits until the command is to end, by a signal or by the control socket. A command of the line has nothing to read again.
pub(crate) async fn until_stopped(
    service: &mut Service,
    interrupted: impl Future<Output = Interrupted>,
) -> Interrupted {
    tokio::pin!(interrupted);
    loop {
        tokio::select! {
            signal = &mut interrupted => return signal,
            command = service.next() => match command {
                Command::Reload(asked) => asked.failed("this command has no configuration to read again"),
                // As by SIGTERM.
                _ => return Interrupted::TERMINATE,
            },
        }
    }
}
