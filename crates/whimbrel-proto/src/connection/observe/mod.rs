//! Events, statistics and quality thresholds.

pub(in crate::connection) mod activity;
pub(in crate::connection) mod counting;
pub(in crate::connection) mod events;
pub(in crate::connection) mod figures;
pub(in crate::connection) mod observer;
mod observing;
mod qlog;
pub(in crate::connection) mod quality;
pub(in crate::connection) mod stats;
pub(in crate::connection) mod watching;
