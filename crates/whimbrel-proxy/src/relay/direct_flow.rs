//! A TCP flow that is not carried: this proxy connects to the target itself.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::connect::connect;
use super::direct::Direct;
use super::flows::RunningFlow;
use super::hand_over::hand_over;
use super::limits::Limits;
use super::record::FlowRecord;
use super::refused::Refused;
use super::socket::Socket;
use super::steering::Steering;
use crate::flow::{Ended, Flow};
use crate::policy::is_special;
use crate::protocol::{Outcome, Target};
use crate::sockets::Mark;

/// A flow that is not carried.
#[derive(Debug)]
pub(crate) struct DirectFlow {
    tcp: TcpStream,
    running: RunningFlow,
}

impl DirectFlow {
    /// Connects to a target.
    pub(crate) async fn open(
        target: &Target,
        source: SocketAddr,
        running: RunningFlow,
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
        run(Flow::new(program, Direct::from(self.tcp)), self.running, limits, steering).await
    }
}

/// Hands on bytes of a flow that is not carried. None: it goes on in another process.
pub(super) async fn run(
    mut flow: Flow<Socket, Direct>,
    running: RunningFlow,
    limits: &Limits,
    steering: Steering,
) -> Option<Ended> {
    let ended = hand_over(&mut flow, &running, limits, steering).await;
    if ended.is_none() {
        running.park_direct(flow);
    }
    ended
}
