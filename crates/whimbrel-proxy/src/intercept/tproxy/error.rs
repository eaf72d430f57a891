//! Why traffic cannot be intercepted.

#[cfg(target_os = "linux")]
use std::io;

#[cfg(target_os = "linux")]
use crate::intercept::kernel::KernelError;

/// Why traffic cannot be intercepted. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TproxyError {
    /// Another system.
    #[error("[in.tproxy] works on Linux only: use SOCKS5, HTTP CONNECT or a forward here")]
    NotLinux,
    /// The kernel cannot be set up.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Another program has the port.
    #[error("another program uses port {0} on loopback: stop that program, or set another [in.tproxy] port")]
    Port(u16),
    /// The kernel would drop what it is handed.
    #[error("the kernel drops SYNs that were held: run `sysctl net.ipv4.conf.all.rp_filter=2`")]
    ReversePath,
    /// A setting changed on which the flows that go on depend.
    #[error(
        "[in.tproxy] {0}: the running proxy intercepts with {1}, which cannot change while its flows continue: keep that value, or stop the proxy first"
    )]
    Keeps(&'static str, String),
    /// Its flows would end.
    #[error(
        "the running proxy intercepts traffic, but this file has no [in.tproxy]: its flows would end, so stop the proxy first"
    )]
    Without,
}

impl TproxyError {
    /// An error of the system from trying `what`.
    #[cfg(target_os = "linux")]
    pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Kernel(KernelError::system(what)(error))
    }
}
