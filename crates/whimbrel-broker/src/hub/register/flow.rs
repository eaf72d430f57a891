//! The figures of a channel.

/// The figures of a channel that the register knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Messages a second that arrive.
    pub arrived_per_second: f64,
    /// Messages that were delivered to subscriptions.
    pub delivered: u64,
    /// Deliveries a second.
    pub delivered_per_second: f64,
}
