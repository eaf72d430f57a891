//! What the tests of several crates share. Not published.

pub mod counting;
mod skip;

pub use skip::skipped;
