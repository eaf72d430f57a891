//! Commands to a running service, from its control socket or by signal.

use tokio::sync::oneshot;

use crate::signals::Interrupted;

/// A command to the service.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command {
    /// Read the configuration again and report the result. Comes from the control socket, and from SIGHUP if
    /// [`ServiceOptions::reload_on_hangup`](field@crate::ServiceOptions::reload_on_hangup) is set.
    Reload(Asked),
    /// Stop gracefully: finish what cannot wait, then call [`Service::finish`](crate::Service::finish). A program that
    /// takes its time for this goes on calling [`Service::next`](crate::Service::next): one more [`Command::Stop`]
    /// means that it should end at once.
    Stop(StoppedBy),
    /// Hand the service over to the process at the other end of this connection, which belongs to the same user or to
    /// root. Whatever both say to one another is theirs to define. Dropping it refuses.
    #[cfg(unix)]
    HandOver(tokio::net::UnixStream),
}

/// The source of the request to stop a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoppedBy {
    /// A client of the control socket.
    Request,
    /// SIGINT or SIGTERM.
    Signal(Interrupted),
}

/// A reload request whose result someone waits for. If it is dropped, they are told that this service has nothing to
/// reload.
#[derive(Debug)]
pub struct Asked(Option<oneshot::Sender<Result<String, String>>>);

impl Asked {
    pub(crate) fn by(tell: oneshot::Sender<Result<String, String>>) -> Self {
        Self(Some(tell))
    }

    pub(crate) fn by_nobody() -> Self {
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
