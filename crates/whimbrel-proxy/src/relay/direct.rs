//! A TCP flow that is not carried: this proxy connects to the target itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::connect::connect;
use super::limits::Limits;
use super::mark::Mark;
use super::near::Refused;
use super::packing::Unpacked;
use super::record::{FlowRecord, Running};
use super::socket::Socket;
use super::steering::Steering;
use crate::flow::{Broken, Channel, Ended, Flow, Program};
use crate::policy::is_special;
use crate::protocol::{Outcome, Target};

/// A connection to the target.
#[derive(Debug)]
pub(crate) struct Direct(Socket);

impl From<TcpStream> for Direct {
    fn from(tcp: TcpStream) -> Self {
        Self(Socket::new(tcp))
    }
}

impl Direct {
    /// See [`Socket::resumed`].
    pub(super) fn resumed(tcp: TcpStream, is_finished: bool) -> Self {
        Self(Socket::resumed(tcp, is_finished))
    }

    pub(super) fn into_inner(self) -> Option<TcpStream> {
        self.0.into_inner()
    }
}

impl Channel for Direct {
    fn poll_read(&mut self, cx: &mut Context<'_>, bytes: &mut Vec<Bytes>) -> Poll<Result<bool, Broken>> {
        self.0.poll_read(cx).map_ok(|read| {
            let more = read.is_some();
            bytes.extend(read);
            more
        })
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &mut Bytes) -> Poll<Result<(), Broken>> {
        let mut list = vec![std::mem::take(bytes)];
        let written = self.0.poll_write(cx, &mut list);
        *bytes = list.pop().unwrap_or_default();
        written
    }

    fn poll_stopped(&mut self, _: &mut Context<'_>) -> Poll<Broken> {
        // TCP has no word for that: a write fails instead.
        Poll::Pending
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    fn reset(&mut self, _: u64) {
        self.0.reset();
    }
}

/// A flow that is not carried.
#[derive(Debug)]
pub(crate) struct DirectFlow {
    tcp: TcpStream,
    running: Running,
}

impl DirectFlow {
    /// Connects to a target.
    pub(crate) async fn open(
        target: &Target,
        source: SocketAddr,
        running: Running,
        limits: &Limits,
        mark: Mark,
    ) -> Result<Self, Refused> {
        // A program on this host could connect by itself. One on another host reaches this host's own services only
        // where it could, too.
        let is_here = source.ip().to_canonical().is_loopback();
        let tcp = connect(target, |ip| is_here || !is_special(ip), |_| None, None, limits, mark)
            .await
            .map_err(Refused::Direct)?;
        Ok(Self { tcp, running })
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.tcp.local_addr().ok()
    }

    pub(crate) fn record(&self) -> Arc<FlowRecord> {
        Arc::clone(&self.running.record)
    }

    /// Sends what was read from the program already.
    pub(crate) async fn send_early(&mut self, bytes: Bytes) -> Result<(), Refused> {
        self.tcp.write_all(&bytes).await.map_err(|_| Refused::Direct(Outcome::Failed))
    }

    /// Hands on bytes until the flow ends. None: it goes on in another process.
    pub(crate) async fn run(self, program: Socket, limits: &Limits, steering: Steering) -> Option<Ended> {
        let flow = Flow::new(program, Direct::from(self.tcp));
        // What the far end refuses is another kind of flow.
        Unpacked::Direct(flow, self.running).run(limits, steering).await.unwrap_or_default()
    }
}
