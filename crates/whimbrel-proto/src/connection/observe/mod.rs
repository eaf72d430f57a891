//! Events, statistics and quality thresholds, and what observers are told.

mod absence_reports;
pub(in crate::connection) mod activity;
pub(in crate::connection) mod counting;
pub(in crate::connection) mod events;
pub(in crate::connection) mod figures;
mod lifecycle_reports;
pub(in crate::connection) mod observer;
mod observing;
pub(in crate::connection) mod path_cause;
mod path_reports;
pub(in crate::connection) mod primary_cause;
mod qlog;
pub(in crate::connection) mod quality;
mod record_fields;
mod report;
pub(in crate::connection) mod stats;
mod stream_reports;
pub(in crate::connection) mod watching;
