//! The connection's own blocks that wait to be sent.

pub(in crate::connection) mod control_queue;
pub(in crate::connection) mod notices;
