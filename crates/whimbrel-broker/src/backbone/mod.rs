//! The backbone that joins the brokers of a cluster: links of their own, or a NATS cluster between them.
//!
//! Whatever carries them, the frames are the same, and each broker asks the others for what it lacks.

mod frame;
mod link_report;
pub mod mesh;
pub mod nats;
mod standing;
mod taking;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

pub use frame::PROTOCOL;
pub(crate) use frame::read_again;
pub use link_report::{LinkReport, LinkState};
pub use mesh::{Mesh, Peer};
pub use nats::{Nats, NatsAccess, NatsPlan, NatsReport};

/// The way in which a broker is joined with the others of its cluster.
#[derive(Clone, Debug)]
pub enum Backbone {
    /// A session with each of them.
    Mesh(Arc<Mesh>),
    /// Servers of NATS.
    Nats(Arc<Nats>),
}

impl Backbone {
    /// Returns the number of brokers that are linked now.
    pub fn linked(&self) -> usize {
        match self {
            Self::Mesh(mesh) => mesh.linked().len(),
            Self::Nats(nats) => nats.linked(),
        }
    }

    /// Learns how fast messages are carried, `elapsed` after the last time.
    pub fn look(&self, elapsed: Duration) {
        match self {
            Self::Mesh(mesh) => mesh.look(elapsed),
            Self::Nats(nats) => nats.look(elapsed),
        }
    }

    /// Returns a report on each other broker that is known.
    pub fn report(&self) -> Vec<LinkReport> {
        match self {
            Self::Mesh(mesh) => mesh.report(),
            Self::Nats(nats) => nats.report(),
        }
    }
}
