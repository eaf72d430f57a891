//! Taking flows apart, so that they go on in another process.

use tokio::sync::{mpsc, watch};

use super::carrier::Carrier;
use super::direct::Direct;
use super::flows::RunningFlow;
use super::socket::Socket;
use crate::flow::{Flow, InHand};

/// The parts of a flow.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) program: Socket,
    pub(crate) other: Other,
    pub(crate) hand: InHand,
    /// It counts until the parts are gone.
    pub(crate) running: RunningFlow,
}

/// The other end of a flow.
#[derive(Debug)]
pub(crate) enum Other {
    Stream(Carrier),
    Direct(Direct),
}

impl RunningFlow {
    /// Leaves the parts of a flow for another process.
    pub(super) fn park(self, flow: Flow<Socket, Carrier>) {
        let (program, channel, hand) = flow.into_parts();
        self.leave(program, Other::Stream(channel), hand);
    }

    /// See [`RunningFlow::park`].
    pub(super) fn park_direct(self, flow: Flow<Socket, Direct>) {
        let (program, direct, hand) = flow.into_parts();
        self.leave(program, Other::Direct(direct), hand);
    }

    fn leave(self, program: Socket, other: Other, hand: InHand) {
        self.parking().leave(Parked { program, other, hand, running: self });
    }
}

/// Where the parts are collected.
type Collector = mpsc::UnboundedSender<Parked>;

/// Where flows are asked to be taken apart.
#[derive(Debug, Default)]
pub(super) struct ParkingLot(watch::Sender<Option<Collector>>);

/// A flow's view of it.
#[derive(Debug)]
pub(super) struct Parking(watch::Receiver<Option<Collector>>);

impl ParkingLot {
    pub(super) fn parking(&self) -> Parking {
        Parking(self.0.subscribe())
    }

    /// Asks all flows, and waits for their parts: as many as `left` says are there. One that ends meanwhile leaves none.
    pub(super) async fn park(&self, left: impl Fn() -> usize) -> Vec<Parked> {
        let (sender, mut parts) = mpsc::unbounded_channel();
        self.0.send_replace(Some(sender));
        let mut parked = Vec::new();
        // A flow whose parts are here counts as before.
        while parked.len() < left() {
            if let Ok(Some(part)) = tokio::time::timeout(LOOK, parts.recv()).await {
                parked.push(part);
                while let Ok(part) = parts.try_recv() {
                    parked.push(part);
                }
            }
        }
        parked
    }
}

/// How often it is looked at whether flows that end are gone.
const LOOK: std::time::Duration = std::time::Duration::from_millis(5);

impl Parking {
    /// Waits until the flow is to be taken apart.
    pub(super) async fn asked(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Leaves the parts.
    fn leave(self, parked: Parked) {
        if let Some(collector) = &*self.0.borrow() {
            // Nobody collects any more: the process ends.
            drop(collector.send(parked));
        }
    }
}
