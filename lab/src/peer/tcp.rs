//! Kernel TCP, over one link or several.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::side::{ready, receive, send, started};
use super::{Peer, Work, anywhere, byte_stream, mptcp};
use crate::job::{Figures, Job, Sent};

/// Unsent bytes that the kernel may hold for a stream of messages. The rest waits in the program, where it counts as
/// waiting at the sender.
const NOT_SENT: u32 = 16 << 10;

/// Kernel TCP with one of the kernel's congestion controllers.
pub(super) struct Tcp {
    pub(super) name: &'static str,
    pub(super) congestion: &'static str,
    /// Whether it uses all links, by MPTCP, or only the first.
    pub(super) multipath: bool,
}

impl Tcp {
    fn protocol(&self) -> Protocol {
        if self.multipath { Protocol::MPTCP } else { Protocol::TCP }
    }
}

impl Peer for Tcp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn settings(&self) -> String {
        if self.multipath {
            return mptcp::settings(self.congestion);
        }
        format!("TCP of Linux {} with {}: {}", kernel(), self.congestion, SETTINGS)
    }

    fn missing(&self) -> Option<String> {
        missing(self.protocol(), self.congestion)
    }

    fn can(&self, _: &Job) -> bool {
        true
    }

    fn serve<'a>(&'a self, job: &'a Job, at: &'a [IpAddr]) -> Work<'a, Figures> {
        Box::pin(async move {
            let mut bound = at[0];
            if self.multipath {
                mptcp::use_several(at, "signal").await?;
                bound = anywhere(at);
            }
            let listener = listen(self.protocol(), self.congestion, bound)?;
            ready(&SocketAddr::new(at[0], listener.local_addr()?.port()).to_string())?;
            receive(job, async |tally| {
                let (mut stream, _) = listener.accept().await?;
                byte_stream::receive(&mut stream, tally).await
            })
            .await
        })
    }

    fn call<'a>(&'a self, job: &'a Job, from: &'a [IpAddr], to: &'a str) -> Work<'a, Sent> {
        Box::pin(send(async move |sent| {
            if self.multipath {
                mptcp::use_several(from, "subflow fullmesh").await?;
            }
            let mut stream = connect(self.protocol(), self.congestion, job, from[0], to).await?;
            byte_stream::send(job, &mut stream, sent).await?;
            byte_stream::until_gone(&mut stream).await;
            Ok(())
        }))
    }
}

/// Settings of every TCP variant that differ from the kernel's defaults.
pub(super) const SETTINGS: &str = "TCP_NODELAY; for messages TCP_NOTSENT_LOWAT of 16 KiB, so that little waits in the kernel unsent; \
     buffers left to the kernel's own tuning, up to 16 MiB; no metrics kept from connection to connection";

/// Returns the kernel's release.
pub(super) fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

/// Returns why such a socket cannot be made, and what to do. `None` if it can be made.
pub(super) fn missing(protocol: Protocol, congestion: &str) -> Option<String> {
    let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)) else {
        return Some(
            "this kernel has no MPTCP: set net.mptcp.enabled=1, or boot one with CONFIG_MPTCP".to_owned(),
        );
    };
    socket.set_tcp_congestion(congestion.as_bytes()).err().map(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("only root may choose {congestion} here: run it with sudo")
        }
        _ => format!("this kernel has no {congestion} ({error}): load it with `modprobe tcp_{congestion}`"),
    })
}

fn socket(protocol: Protocol, congestion: &str, address: IpAddr) -> anyhow::Result<TcpSocket> {
    let domain = if address.is_ipv6() { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::STREAM, Some(protocol))?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(address, 0).into())?;
    Ok(TcpSocket::from_std_stream(socket.into()))
}

/// Listens on any port of `at`.
pub(super) fn listen(protocol: Protocol, congestion: &str, at: IpAddr) -> anyhow::Result<TcpListener> {
    Ok(socket(protocol, congestion, at)?.listen(1)?)
}

/// Reports the start, and connects.
pub(super) async fn connect(
    protocol: Protocol,
    congestion: &str,
    job: &Job,
    from: IpAddr,
    to: &str,
) -> anyhow::Result<TcpStream> {
    let socket = socket(protocol, congestion, from)?;
    if matches!(job, Job::Messages { .. } | Job::Frames { .. }) {
        SockRef::from(&socket).set_tcp_notsent_lowat(NOT_SENT)?;
    }
    started()?;
    Ok(socket.connect(to.parse()?).await?)
}
