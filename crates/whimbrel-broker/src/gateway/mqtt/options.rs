//! The delivery options of a client.

use whimbrel_pubsub::frame::{Recover, Start};

use super::codec::Qos;
use crate::selection::Selection;

/// The delivery of a subscription's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) qos: Qos,
    pub(super) no_local: bool,
    pub(super) as_published: bool,
    pub(super) identifier: Option<u32>,
}

/// A subscription that is asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) selection: Selection,
    pub(super) options: Options,
    pub(super) start: Start,
    pub(super) recover: Recover,
    /// Whether it gets last values.
    pub(super) wants_values: bool,
    /// Whether the client keeps the subscription's state.
    pub(super) is_semi_durable: bool,
}
