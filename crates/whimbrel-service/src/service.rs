//! A running service as others see it.

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

/// Which of a service's faces there are. Default: none, but for systemd, which is told if it started the service.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ServiceOptions {
    /// What runs.
    pub name: String,
    /// Where the control socket is made, with mode 0600.
    pub control: Option<PathBuf>,
    /// Where metrics are served over HTTP. Whoever reaches the address reads them.
    pub metrics: Option<SocketAddr>,
    /// Where activity is logged.
    pub activity: Option<ActivityOptions>,
    /// SIGHUP is [`Command::Reload`]. Default false: it ends the process, as it does when a terminal closes.
    pub reload_on_hangup: bool,
}

impl ServiceOptions {
    /// Nothing but a name.
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

/// What a service is asked to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// Read the configuration again, and say how it went. By the control socket, or by SIGHUP.
    Reload(Asked),
    /// End in order. By the control socket; what SIGTERM means is the program's business.
    Stop,
}

/// Somebody waits to hear how it went. Dropped, they hear that there is nothing to reload.
#[derive(Debug)]
pub struct Asked(Option<oneshot::Sender<Result<String, String>>>);

impl Asked {
    pub(crate) fn by(tell: oneshot::Sender<Result<String, String>>) -> Self {
        Self(Some(tell))
    }

    fn by_nobody() -> Self {
        Self(None)
    }

    /// It was done; what is said of it.
    pub fn done(self, said: impl Into<String>) {
        self.tell(Ok(said.into()));
    }

    /// It was not done, and everything is as it was; why.
    pub fn failed(self, why: impl Into<String>) {
        self.tell(Err(why.into()));
    }

    fn tell(self, how: Result<String, String>) {
        if let Some(tell) = self.0 {
            // Whoever asked may have gone.
            tell.send(how).ok();
        }
    }
}

/// What the service's faces look at.
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

/// A running service as others see it. Dropped, its control socket and metrics are gone.
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
    /// Makes what `options` ask for, and tells systemd that the service is ready. `more` is what `status` says beside what all services
    /// say.
    ///
    /// # Errors
    /// A socket or file cannot be made; then nothing is left of the others.
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

    /// What to do next. Cancel-safe.
    pub async fn next(&mut self) -> Command {
        tokio::select! {
            Some(command) = self.commands.recv() => command,
            () = hangup(&mut self.hangups) => Command::Reload(Asked::by_nobody()),
            else => std::future::pending().await,
        }
    }

    /// Where metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_server.as_ref().map(MetricsServer::address)
    }

    /// Its figures, to which more can be added.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What `status` says now.
    pub fn status(&self) -> StatusReport {
        self.subject.status()
    }

    /// Logs activity, if it is logged: what happened, and the fields of an object.
    pub fn note(&self, what: &str, more: serde_json::Value) {
        if let Some(activity) = &self.activity {
            activity.note(what, more);
        }
    }

    /// The activity log, if activity is logged.
    pub fn activity(&self) -> Option<ActivityLog> {
        self.activity.clone()
    }

    /// Tells systemd that the configuration is being read again; [`Service::reloaded`] says that it was.
    pub fn reloading(&self) {
        self.readiness.reloading();
    }

    /// See [`Service::reloading`].
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

/// The next SIGHUP, if they are listened for.
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
