//! The backbone that joins the brokers of a cluster.

pub mod mesh;

pub use mesh::{Mesh, PROTOCOL, Peer};
pub(crate) use mesh::read_again;
