//! Nodes, scenarios and checkers for the Whimbrel transport, on a virtual clock, from a seed.

pub mod checker;
pub mod fuzz;
pub mod pair;
pub mod world;
