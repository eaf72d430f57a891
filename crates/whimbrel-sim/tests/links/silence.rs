//! Outages.
