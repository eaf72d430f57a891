//! A running service and its interfaces for control and monitoring.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use whimbrel::Endpoint;

use crate::activity::ActivityLog;
use crate::command::{Asked, Command, StoppedBy};
#[cfg(unix)]
use crate::control::ControlServer;
use crate::dashboard::DashboardServer;
use crate::error::ServiceError;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::metrics::http::MetricsServer;
use crate::readiness::Readiness;
use crate::service_options::ServiceOptions;
use crate::signals::{Hangups, Interrupted, Interrupts};
use crate::status::StatusReport;
use crate::subject::Subject;
use crate::watch::Watch;

/// The least time that peers have to ask once more for the end of a session that they missed.
const FAREWELL: Duration = Duration::from_millis(300);

/// A running service and its interfaces. Dropping it closes the control socket, the metrics server and the dashboard.
pub struct Service {
    subject: Arc<Subject>,
    metrics: Metrics,
    metrics_server: Option<MetricsServer>,
    dashboard: Option<DashboardServer>,
    #[cfg(unix)]
    _control: Option<ControlServer>,
    activity: Option<ActivityLog>,
    commands: mpsc::Receiver<Command>,
    interrupts: Interrupts,
    hangups: Hangups,
    watch: Option<Watch>,
    health: Health,
    readiness: Readiness,
}

impl Service {
    /// Starts the interfaces in `options` and tells systemd that the service is ready. From now on, SIGINT and SIGTERM
    /// do not end the process but are commands that [`Service::next`] returns. `more` returns the data specific to
    /// this service, which is added to its status.
    ///
    /// # Errors
    /// A socket or file cannot be created, or the system reports no signals. The interfaces started before are then closed again.
    pub async fn start(
        options: ServiceOptions,
        endpoint: &Endpoint,
        more: impl Fn() -> serde_json::Value + Send + Sync + 'static,
    ) -> Result<Self, ServiceError> {
        let ServiceOptions {
            name,
            version,
            control,
            metrics: address,
            dashboard,
            activity,
            reload_on_hangup,
            watch,
        } = options;
        let interrupts = Interrupts::listen().map_err(ServiceError::Signals)?;
        let hangups = Hangups::listen(reload_on_hangup).map_err(ServiceError::Signals)?;
        let watch =
            watch.map(|file| Watch::begin(&file).map_err(|error| ServiceError::Watch { file, error }));
        let watch = watch.transpose()?;
        let health = Health::new();
        let (began, more) = (Instant::now(), Box::new(more));
        let metrics = Metrics::new(endpoint, &name, &version);
        let subject = Arc::new(Subject { name, version, began, endpoint: endpoint.clone(), more });
        let (send, commands) = mpsc::channel(4);
        let activity = activity.map(ActivityLog::open).transpose()?;
        let metrics_server = match address {
            Some(address) => Some(MetricsServer::bind(address, metrics.clone(), health.clone()).await?),
            None => None,
        };
        let dashboard = match dashboard {
            Some(options) => Some(DashboardServer::bind(options, Arc::clone(&subject)).await?),
            None => None,
        };
        #[cfg(unix)]
        let _control = match control {
            Some(path) => Some(ControlServer::bind(path, Arc::clone(&subject), send).await?),
            None => None,
        };
        #[cfg(not(unix))]
        drop((control, send));
        Ok(Self {
            subject,
            metrics,
            metrics_server,
            dashboard,
            #[cfg(unix)]
            _control,
            activity,
            commands,
            interrupts,
            hangups,
            watch,
            health,
            readiness: Readiness::announce(),
        })
    }

    /// Waits for the next command. Cancel-safe.
    ///
    /// The service's main loop must come back here: this also feeds systemd's watchdog, which restarts a service whose
    /// loop is stuck.
    pub async fn next(&mut self) -> Command {
        loop {
            tokio::select! {
                Some(command) = self.commands.recv() => {
                    self.look(&command);
                    return command;
                }
                signal = self.interrupts.next() => return Command::Stop(StoppedBy::Signal(signal)),
                () = self.hangups.next() => {
                    let command = Command::Reload(Asked::by_nobody());
                    self.look(&command);
                    return command;
                }
                () = changed(&mut self.watch) => return Command::Reload(Asked::by_nobody()),
                () = self.readiness.feed() => {}
            }
        }
    }

    /// A file that is read anyway is not read again because it was saved.
    fn look(&mut self, command: &Command) {
        if let (Command::Reload(_), Some(watch)) = (command, &mut self.watch) {
            watch.look();
        }
    }

    /// Ends the service and closes its endpoint: tells systemd that it is stopping, answers further requests that it
    /// is ending, and closes every session gracefully with this code and text. What was sent before is delivered, for
    /// at most `patience`; then the remaining sessions are aborted with the same code and text. Returns how many those
    /// were.
    ///
    /// # Errors
    /// A signal came meanwhile, which means at once: what was left was aborted.
    pub async fn finish(mut self, code: u64, text: &str, patience: Duration) -> Result<usize, Interrupted> {
        self.readiness.stopping();
        self.health.stop();
        self.refuse_commands();
        let endpoint = self.subject.endpoint.clone();
        let closing = close(&endpoint, code, text, patience);
        tokio::pin!(closing);
        loop {
            tokio::select! {
                left = &mut closing => return Ok(left),
                signal = self.interrupts.next() => {
                    endpoint.abort_all(code, text);
                    return Err(signal);
                }
                () = self.readiness.feed() => {}
            }
        }
    }

    fn refuse_commands(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Reload(asked) = command {
                asked.failed("the service is ending");
            }
        }
    }

    /// Sets the check that `/healthz` makes for each request: it returns why the service is not healthy, and the
    /// client gets that reason with status 503. Default: the service is healthy until it stops. The check must be
    /// quick.
    pub fn set_health(&self, check: impl Fn() -> Result<(), String> + Send + 'static) {
        self.health.set(check);
    }

    /// Returns the address on which metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_server.as_ref().map(MetricsServer::address)
    }

    /// Returns the address on which the dashboard is served.
    pub fn dashboard_address(&self) -> Option<SocketAddr> {
        self.dashboard.as_ref().map(DashboardServer::address)
    }

    /// Returns the service's metrics, to which more can be registered.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the current status.
    pub fn status(&self) -> StatusReport {
        self.subject.status()
    }

    /// Writes to the activity log, if there is one: what happened, and the fields of an object.
    pub fn note(&self, what: &str, more: serde_json::Value) {
        if let Some(activity) = &self.activity {
            activity.note(what, more);
        }
    }

    /// Returns the activity log, if there is one.
    pub fn activity(&self) -> Option<ActivityLog> {
        self.activity.clone()
    }

    /// Tells systemd that the configuration is being reloaded. Call [`Service::reloaded`] afterwards.
    pub fn reloading(&self) {
        self.readiness.reloading();
    }

    /// Tells systemd that reloading is over. See [`Service::reloading`].
    pub fn reloaded(&self) {
        self.readiness.reloaded();
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("name", &self.subject.name).finish_non_exhaustive()
    }
}

async fn changed(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// Closes every session gracefully, then stays a moment for peers that missed it. Returns how many were aborted.
async fn close(endpoint: &Endpoint, code: u64, text: &str, patience: Duration) -> usize {
    let deadline = tokio::time::Instant::now() + patience;
    let left = endpoint.close(code, text, patience).await;
    let linger = deadline.max(tokio::time::Instant::now() + FAREWELL);
    // Peers that are not told find out by themselves.
    drop(tokio::time::timeout_at(linger, endpoint.wait_idle()).await);
    left
}
