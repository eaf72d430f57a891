//! The broker: semi-durable publish/subscribe for subscribers that roam.

#![warn(missing_debug_implementations)]

pub mod matching;
pub mod selector;
