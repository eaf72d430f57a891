//! Building and opening packets, and reporting their fates.

pub(in crate::connection) mod building;
mod coded;
pub(in crate::connection) mod coding;
pub(in crate::connection) mod copies;
pub(in crate::connection) mod copying;
pub(in crate::connection) mod fates;
pub(in crate::connection) mod lengths;
pub(in crate::connection) mod mtu;
pub(in crate::connection) mod notes;
pub(in crate::connection) mod receive;
pub(in crate::connection) mod sacked;
pub(in crate::connection) mod sacks;
pub(in crate::connection) mod sent_block;
pub(in crate::connection) mod transmit;
