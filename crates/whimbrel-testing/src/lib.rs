//! Helpers shared by the tests of several crates. This crate is not published.

pub mod counting;
mod skip;

pub use skip::skipped;
