//! The parts that publishers, subscribers and brokers share.

#![warn(missing_debug_implementations)]

pub mod property;
pub mod topic;
