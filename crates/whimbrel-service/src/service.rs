//! A running service and its interfaces for control and monitoring.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};
use whimbrel::Endpoint;

use crate::activity::{ActivityLog, ActivityOptions};
#[cfg(unix)]
use crate::control::ControlServer;
use crate::error::ServiceError;
use crate::metrics::Metrics;
use crate::metrics::http::MetricsServer;
use crate::readiness::Readiness;
use crate::status::StatusReport;

/// The interfaces that a service offers. Default: none, except that systemd is notified if it started the service.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// The name of the service.
    pub name: String,
    /// The path of the control socket, which is created with mode 0600.
    pub control: Option<PathBuf>,
    /// The address on which metrics are served over HTTP. Anyone who can reach it can read them.
    pub metrics: Option<SocketAddr>,
    /// Where activity is logged, and how much of it is kept.
    pub activity: Option<ActivityOptions>,
    /// Whether SIGHUP means [`Command::Reload`]. Default false: SIGHUP ends the process, as when its terminal closes.
    pub reload_on_hangup: bool,
}

impl ServiceOptions {
    /// Options with a name only.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
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

    /// Sets [`activity`](field@ServiceOptions::activity).
    #[must_use]
    pub fn activity(mut self, options: ActivityOptions) -> Self {
        self.activity = Some(options);
        self
    }

    /// Sets [`reload_on_hangup`](field@ServiceOptions::reload_on_hangup).
    #[must_use]
    pub fn reload_on_hangup(mut self) -> Self {
        self.reload_on_hangup = true;
        self
    }
}

/// A command to the service.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// Read the configuration again and report the result. Comes from the control socket or from SIGHUP.
    Reload(Asked),
    /// Stop gracefully. Comes from the control socket. SIGTERM is left to the program.
    Stop,
}

/// A reload request whose result someone waits for. If it is dropped, they are told that this service has nothing to
/// reload.
#[derive(Debug)]
pub struct Asked(Option<oneshot::Sender<Result<String, String>>>);

impl Asked {
    pub(crate) fn by(tell: oneshot::Sender<Result<String, String>>) -> Self {
        Self(Some(tell))
    }

    fn by_nobody() -> Self {
        Self(None)
    }

    /// Reports success, with a message.
    pub fn done(self, said: impl Into<String>) {
        self.tell(Ok(said.into()));
    }

    /// Reports failure, with the reason. Nothing must have changed.
    pub fn failed(self, why: impl Into<String>) {
        self.tell(Err(why.into()));
    }

    fn tell(self, how: Result<String, String>) {
        if let Some(tell) = self.0 {
            // The client may have disconnected.
            tell.send(how).ok();
        }
    }
}

/// The service, as the control socket reports on it.
pub(crate) struct Subject {
    name: String,
    began: Instant,
    endpoint: Endpoint,
    more: Box<dyn Fn() -> serde_json::Value + Send + Sync>,
}

impl Subject {
    pub(crate) fn status(&self) -> StatusReport {
        StatusReport::new(&self.name, self.began, &self.endpoint, (self.more)())
    }
}

/// A running service and its interfaces. Dropping it closes the control socket and the metrics server.
pub struct Service {
    subject: Arc<Subject>,
    metrics: Metrics,
    metrics_server: Option<MetricsServer>,
    #[cfg(unix)]
    _control: Option<ControlServer>,
    activity: Option<ActivityLog>,
    commands: mpsc::Receiver<Command>,
    #[cfg(unix)]
    hangups: Option<tokio::signal::unix::Signal>,
    readiness: Readiness,
}

impl Service {
    /// Starts the interfaces in `options` and tells systemd that the service is ready. `more` returns the data
    /// specific to this service, which is added to its status.
    ///
    /// # Errors
    /// A socket or file cannot be created. The interfaces started before are then closed again.
    pub async fn start(
        options: ServiceOptions,
        endpoint: &Endpoint,
        more: impl Fn() -> serde_json::Value + Send + Sync + 'static,
    ) -> Result<Self, ServiceError> {
        let ServiceOptions { name, control, metrics: address, activity, reload_on_hangup } = options;
        let (began, more) = (Instant::now(), Box::new(more));
        let subject = Arc::new(Subject { name, began, endpoint: endpoint.clone(), more });
        let (send, commands) = mpsc::channel(4);
        let activity = activity.map(ActivityLog::open).transpose()?;
        let metrics = Metrics::new(endpoint);
        let metrics_server = match address {
            Some(address) => Some(MetricsServer::bind(address, metrics.clone()).await?),
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
            #[cfg(unix)]
            _control,
            activity,
            commands,
            #[cfg(unix)]
            hangups: if reload_on_hangup { Some(listen_for_hangups()?) } else { None },
            readiness: Readiness::announce(),
        })
    }

    /// Waits for the next command. Cancel-safe.
    pub async fn next(&mut self) -> Command {
        tokio::select! {
            Some(command) = self.commands.recv() => command,
            () = hangup(&mut self.hangups) => Command::Reload(Asked::by_nobody()),
            else => std::future::pending().await,
        }
    }

    /// Returns the address on which metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_server.as_ref().map(MetricsServer::address)
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

#[cfg(unix)]
fn listen_for_hangups() -> Result<tokio::signal::unix::Signal, ServiceError> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).map_err(ServiceError::Signals)
}

/// Waits for the next SIGHUP. Waits for ever if the service does not listen for it.
#[cfg(unix)]
async fn hangup(hangups: &mut Option<tokio::signal::unix::Signal>) {
    let next = match hangups {
        Some(hangups) => hangups.recv().await,
        None => None,
    };
    if next.is_none() {
        std::future::pending().await
    }
}
