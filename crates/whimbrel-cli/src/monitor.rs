//! Options to monitor and control a long-running command.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use whimbrel::Endpoint;
use whimbrel_service::{
    ActivityOptions, Asked, Command, DashboardOptions, Service, ServiceSettings, StoppedBy,
};

use crate::output::note;
use crate::settings::reload::Reload;
use crate::units;

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
    /// Show what the command does in a browser, live, on this address of this host, such as 127.0.0.1:9110. Every user of this host can look.
    /// For other addresses, write `dashboard` under [service] in a file.
    #[arg(long, value_name = "ADDR", value_parser = loopback)]
    dashboard: Option<SocketAddr>,
    /// Log activity to this file, as one JSON line per event. The file is rotated at 16 MiB; four older ones are
    /// kept.
    #[arg(long, value_name = "FILE")]
    activity: Option<PathBuf>,
}

impl MonitorOptions {
    /// Sets what was given.
    pub(crate) fn apply(&self, settings: &mut ServiceSettings) {
        settings.metrics = self.metrics.or(settings.metrics);
        if let Some(control) = &self.control {
            settings.control = Some(control.clone());
        }
        if let Some(address) = self.dashboard {
            // The file may say under which names it is asked for.
            match &mut settings.dashboard {
                Some(dashboard) => dashboard.address = address,
                none => *none = Some(DashboardOptions::new(address)),
            }
        }
        if let Some(path) = &self.activity {
            // The file may say how much is kept.
            match &mut settings.activity {
                Some(activity) => activity.path.clone_from(path),
                none => *none = Some(ActivityOptions::new(path)),
            }
        }
    }
}

/// Parses an address of this host that others do not reach.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = units::address(text)?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "other hosts can reach {address}: if everybody there may see everything, write `dashboard = \"{address}\"` under [service] in a \
         file, and give it to --config"
    ))
}

/// Starts the interfaces of a command that runs with these settings, and tells systemd that it is ready. SIGHUP is
/// listened for if there is a configuration `file` to read again.
///
/// # Errors
/// A socket or file cannot be created.
pub(crate) async fn start(
    name: &str,
    settings: &ServiceSettings,
    file: Option<&Path>,
    endpoint: &Endpoint,
    more: impl Fn() -> serde_json::Value + Send + Sync + 'static,
) -> anyhow::Result<Service> {
    let mut options = settings.clone().options(name).version(env!("CARGO_PKG_VERSION"));
    options.reload_on_hangup = file.is_some();
    options.watch = file.filter(|_| settings.watch).map(Path::to_owned);
    let service = Service::start(options, endpoint, more).await?;
    if let Some(address) = service.metrics_address() {
        note(format_args!("metrics on http://{address}/metrics"));
    }
    if let Some(address) = service.dashboard_address() {
        note(format_args!("dashboard on http://{address}/"));
    }
    Ok(service)
}

/// Waits until a signal or the control socket stops the command. Meanwhile the configuration is read again when that
/// is asked for.
pub(crate) async fn until_stopped(service: &mut Service, reload: &mut Reload) -> StoppedBy {
    loop {
        match service.next().await {
            Command::Stop(by) => return by,
            Command::Reload(asked) => {
                service.reloading();
                let reloaded = reload.reload();
                service.reloaded();
                answer(service, asked, reloaded);
            }
            _ => {}
        }
    }
}

/// Tells the one who asked, and whoever watches, how it went.
pub(crate) fn answer(service: &Service, asked: Asked, reloaded: Result<String, String>) {
    match reloaded {
        Ok(said) => {
            note(format_args!("configuration read again: {said}"));
            service.note("configuration read", serde_json::json!({ "result": said }));
            asked.done(said);
        }
        Err(why) => {
            note(format_args!("configuration not changed: {why}"));
            service.note("configuration refused", serde_json::json!({ "why": why }));
            asked.failed(why);
        }
    }
}
