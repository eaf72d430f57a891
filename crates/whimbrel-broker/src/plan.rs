//! The required size of a buffer.

use std::time::Duration;

/// The requirements on a buffer: the messages of one partition, the absences of subscribers, and the loss they accept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Messages a second.
    pub rate: f64,
    /// Bytes of an encoded message, on average.
    pub size: u64,
    /// The mean time for which a subscriber is away. Absences are taken to be memoryless, as in the paper.
    pub absence: Duration,
    /// The share of time for which a subscriber is away, 0 to 1.
    pub away: f64,
    /// The share of messages that may be overwritten before a subscriber comes back, 0 to 1.
    pub loss: f64,
}

impl Plan {
    /// Returns the messages that the buffer has to hold: rate × absence × ln(away / loss). The policy is `lrp`, with which a message stays until
    /// that many others have been published.
    pub fn messages(&self) -> u64 {
        let times = (self.away / self.loss).ln().max(0.0);
        (self.rate * self.absence.as_secs_f64() * times).ceil() as u64
    }

    /// Returns the bytes of these messages.
    pub fn bytes(&self) -> u64 {
        self.messages().saturating_mul(self.size)
    }

    /// Returns the time for which a message stays.
    pub fn reach(&self) -> Duration {
        Duration::try_from_secs_f64(self.messages() as f64 / self.rate).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_buffer_comes_out() {
        let absence = Duration::from_secs(24);
        let plan = Plan { rate: 258.63, size: 50, absence, away: 0.0742, loss: 0.00296 };
        let messages = plan.messages();
        assert!((19_900..20_100).contains(&messages), "{messages}");
        assert_eq!(plan.bytes(), 50 * messages);
        assert_eq!(plan.reach().as_secs(), 77);
        // Who may lose all that was published while away needs no buffer.
        assert_eq!(Plan { loss: 0.1, ..plan }.messages(), 0);
    }
}
