//! The seam to topics and selectors.

use std::fmt;

use whimbrel_pubsub::message::Message;

/// Something that picks messages: a topic filter with a selector, or the rule of a partition.
pub trait Picks: fmt::Debug + Send + Sync {
    /// Whether it picks `message`.
    fn picks(&self, message: &Message) -> bool;
}

/// Picks all messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct All;

impl Picks for All {
    fn picks(&self, _: &Message) -> bool {
        true
    }
}

/// The part of a partition that a subscription can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nothing.
    None,
    /// Some messages, or nobody can tell.
    Part,
    /// Every message.
    Whole,
}
