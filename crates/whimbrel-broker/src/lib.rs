//! The broker: semi-durable publish/subscribe for subscribers that roam.

#![warn(missing_debug_implementations)]

pub mod buffer;
pub mod gateway;
pub mod hub;
pub mod matching;
#[cfg(feature = "mutants")]
pub mod mutants;
#[cfg(not(feature = "mutants"))]
mod mutants;
pub mod native;
pub mod roaming;
pub mod selection;
pub mod selector;
pub mod settings;
mod time;

pub use time::{Now, Time};
