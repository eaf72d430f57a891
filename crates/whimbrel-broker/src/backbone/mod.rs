//! The backbone that joins the brokers of a cluster.

pub mod mesh;

pub(crate) use mesh::read_again;
pub use mesh::{Mesh, PROTOCOL, Peer};
