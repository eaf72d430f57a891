//! The broker: semi-durable publish/subscribe for subscribers that roam.

#![warn(missing_debug_implementations)]

pub mod backbone;
pub mod buffer;
pub mod durable;
#[doc(hidden)]
pub mod fuzz;
pub mod gateway;
pub mod hub;
mod ids;
mod locking;
pub mod matching;
#[cfg(feature = "mutants")]
pub mod mutants;
#[cfg(not(feature = "mutants"))]
mod mutants;
pub mod native;
pub mod plan;
pub mod quota;
pub mod report;
pub mod roaming;
pub mod selection;
pub mod selector;
mod serving;
pub mod settings;
mod share;
pub mod store;
mod time;
pub mod tls;

pub use serving::serve;
pub use time::{Now, Time};

/// Compiles and runs the example of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
