//! Nodes, scenarios and checkers for the Whimbrel transport, on a virtual clock, reproducible from a seed.

pub mod checker;
pub mod fuzz;
pub mod pair;
pub mod world;
