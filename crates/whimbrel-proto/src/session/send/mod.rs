//! The sending side, from the send call to the outcome.

pub(in crate::session) mod accounting;
pub(in crate::session) mod arena;
pub(in crate::session) mod bytes_out;
pub(in crate::session) mod copied;
pub(in crate::session) mod copies;
pub(in crate::session) mod data_out;
pub(in crate::session) mod fate;
pub(in crate::session) mod fill;
pub(in crate::session) mod fill_blocks;
pub(in crate::session) mod fragments;
pub(in crate::session) mod gather;
pub(in crate::session) mod lane;
pub(in crate::session) mod notices;
pub(in crate::session) mod out_blocks;
pub(in crate::session) mod queue;
pub(in crate::session) mod refused;
pub(in crate::session) mod resend;
pub(in crate::session) mod retransmit;
pub(in crate::session) mod send_item;
pub(in crate::session) mod sending;
pub(in crate::session) mod skip_answers;
