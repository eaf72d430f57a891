//! Clients of other protocols.

pub mod mqtt;
