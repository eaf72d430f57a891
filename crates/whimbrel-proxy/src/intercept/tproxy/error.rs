//! Why traffic cannot be intercepted.

use std::io;

/// Why traffic cannot be intercepted. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TproxyError {
    /// Another system.
    #[error("[in.tproxy] works on Linux only: use SOCKS5, HTTP CONNECT or a forward here")]
    NotLinux,
    /// The process may not.
    #[error("[in.tproxy] needs root (CAP_NET_ADMIN): run the proxy as root")]
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
    /// Another program has the port.
    #[error("another program has port {0} on loopback: end that program, or set another [in.tproxy] port")]
    Port(u16),
    /// As many instances run as there can be.
    #[error("16 proxies intercept traffic on this host already, which is the most: end one")]
    TooMany,
    /// The kernel would drop what it is handed.
    #[error("the kernel drops SYNs that were held: run `sysctl net.ipv4.conf.all.rp_filter=2`")]
    ReversePath,
    /// Hosts behind an interface reach nothing through this one.
    #[error(
        "this host forwards nothing of `{0}`, so nothing is there to intercept: run `sysctl net.ipv4.ip_forward=1` (and `net.ipv6.conf.all.forwarding=1` for IPv6)"
    )]
    NoForwarding(String),
    /// A program says no.
    #[error("`{what}` failed: {why}")]
    Failed {
        /// The attempt that failed.
        what: String,
        /// The output of the program.
        why: String,
    },
    /// The system says no.
    #[error("{what}: {error}")]
    System {
        /// The attempt that failed.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl TproxyError {
    /// An error of the system from trying `what`.
    #[cfg(target_os = "linux")]
    pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NoRights,
            _ => Self::System { what, error },
        }
    }
}
