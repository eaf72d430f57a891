//! The transport as a node: an endpoint with its connections.

mod contact;
mod disk;
pub(crate) mod machine;
mod node;
mod peer;
mod scene;

pub use self::machine::Host;
pub use self::peer::Peer;
pub use crate::world::SERVER;
