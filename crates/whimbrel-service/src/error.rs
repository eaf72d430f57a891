//! Why a service does not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The control socket cannot be made.
    #[error("cannot make the control socket {path:?}: {error}")]
    Control {
        /// Where.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Somebody answers on the control socket.
    #[error("another process has the control socket {0:?}: stop it, or choose another path")]
    ControlInUse(PathBuf),
    /// Metrics cannot be served there.
    #[error(
        "cannot serve metrics on {address}: {error}; choose an address of this host and a port that is free"
    )]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The activity log cannot be written.
    #[error("cannot write the activity log {path:?}: {error}")]
    Activity {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The system reports no signals.
    #[error("the system reports no signals: {0}")]
    Signals(io::Error),
}
