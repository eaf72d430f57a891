//! Why the kernel cannot be set up.

use std::io;

/// Why the kernel cannot be set up. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The process may not.
    #[error(
        "intercepting traffic, and cleaning up after it, needs root (CAP_NET_ADMIN): run this command as root"
    )]
    NoRights,
    /// A program that is needed is not there.
    #[error(
        "intercepting traffic needs the program `{program}`, which is not in PATH: install the package {package}"
    )]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// The package that has it on most systems.
        package: &'static str,
    },
    /// The maximum number of instances is running.
    #[error("16 proxies already intercept traffic on this host, which is the maximum: stop one")]
    TooMany,
    /// Hosts behind an interface reach nothing through this one.
    #[error(
        "this host does not forward traffic from `{0}`, so there is nothing to intercept: run `sysctl net.ipv4.ip_forward=1` (and `net.ipv6.conf.all.forwarding=1` for IPv6)"
    )]
    NoForwarding(String),
    /// A program says no.
    #[error("`{what}` failed: {why}")]
    Failed {
        /// The command.
        what: String,
        /// Its message.
        why: String,
    },
    /// The system says no.
    #[error("{what}: {error}")]
    System {
        /// The action that was tried.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl KernelError {
    /// An error of the system from trying `what`.
    pub(in crate::intercept) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NoRights,
            _ => Self::System { what, error },
        }
    }
}
