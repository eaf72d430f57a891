//! Why traffic cannot be intercepted.

#[cfg(target_os = "linux")]
use crate::intercept::kernel::KernelError;

/// Why traffic cannot be intercepted. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// Another system.
    #[error("[in.tun] works on Linux only: use SOCKS5, HTTP CONNECT or a forward here")]
    NotLinux,
    /// The kernel cannot be set up.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The kernel has no TUN.
    #[error(
        "this kernel has no TUN interfaces (/dev/net/tun: {0}): run `modprobe tun`, or use SOCKS5, HTTP CONNECT or a forward"
    )]
    NoTun(std::io::Error),
    /// Another program has an interface of this name.
    #[error("another program has an interface `{0}`: stop that program, or delete or rename the interface")]
    Name(String),
    /// No network is of a family that this host has.
    #[error("[in.tun] routes names IPv6 networks only, and this host has no IPv6")]
    NoFamily,
    /// A setting changed on which the flows that go on depend.
    #[error(
        "[in.tun] {0}: the running proxy intercepts with {1}, which cannot change while its flows continue: keep that value, or stop the proxy first"
    )]
    Keeps(&'static str, String),
    /// Its flows would end.
    #[error(
        "the running proxy has a TUN interface, but this file has no [in.tun]: its flows would end, so stop the proxy first"
    )]
    Without,
    /// The parts that another process has handed over cannot be used.
    #[error("taking over the TUN interface failed: {0}")]
    TakingOver(std::io::Error),
}
