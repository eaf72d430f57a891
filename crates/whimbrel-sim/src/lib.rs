//! Nodes, scenarios and checkers on a virtual clock, reproducible from a seed.
//!
//! [`world`] knows nodes, links and the time. [`host`] is the transport as a node. The rest are scenarios of hosts.

pub mod checker;
pub mod fuzz;
pub mod host;
pub mod pair;
pub mod world;
