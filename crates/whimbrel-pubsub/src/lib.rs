//! The parts that publishers, subscribers and brokers share.

#![warn(missing_debug_implementations)]

pub mod client;
pub mod codec;
pub mod coverage;
pub mod frame;
pub mod message;
pub mod property;
pub mod topic;

/// Compiles and runs the example of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
