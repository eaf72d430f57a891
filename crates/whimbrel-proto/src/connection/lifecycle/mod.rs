//! Closing, suspending, resuming and reattaching.

pub(in crate::connection) mod attachment;
pub(in crate::connection) mod close;
pub(in crate::connection) mod dial;
pub(in crate::connection) mod farewell;
pub(in crate::connection) mod reattach;
pub(in crate::connection) mod redial;
pub(in crate::connection) mod resume;
pub(in crate::connection) mod resuming;
pub(in crate::connection) mod revoked;
pub(in crate::connection) mod succession;
pub(in crate::connection) mod suspend;
pub(in crate::connection) mod suspended;
