//! Errors from starting a service.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error from starting a service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The control socket cannot be created.
    #[error(
        "cannot make the control socket {path:?}: {error}; choose a path in a folder that you may write to"
    )]
    Control {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another process listens on the control socket.
    #[error("another process has the control socket {0:?}: stop it, or choose another path")]
    ControlInUse(PathBuf),
    /// Metrics cannot be served on this address.
    #[error(
        "cannot serve metrics on {address}: {error}; choose an address of this host and a port that is free"
    )]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The dashboard cannot be served on this address.
    #[error(
        "cannot serve the dashboard on {address}: {error}; choose an address of this host and a port that is free"
    )]
    Dashboard {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The activity log cannot be written.
    #[error(
        "cannot write the activity log {path:?}: {error}; choose a path in a folder that you may write to"
    )]
    Activity {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The configuration file cannot be watched.
    #[error(
        "cannot watch the folder of {file:?}: {error}; leave out `watch`, and use `whimbrel reload` or SIGHUP"
    )]
    Watch {
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The system cannot report signals.
    #[error("cannot receive signals from the system: {0}")]
    Signals(io::Error),
}
