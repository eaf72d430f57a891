//! Helpers shared by the tests of several crates. This crate is not published.

pub mod counting;
pub mod example;
pub mod searching;
mod skip;

/// Compiles and runs the examples of the repository's README and guides. Packages that are published cannot, since
/// these files are outside of them.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
#[doc = include_str!("../../../docs/guide.md")]
#[doc = include_str!("../../../docs/mobility.md")]
#[doc = include_str!("../../../docs/broker.md")]
struct Pages;

pub use skip::skipped;
