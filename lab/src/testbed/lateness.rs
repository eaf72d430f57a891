//! Lateness of the links in a trial, recorded whatever its experiment measures.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use whimbrel_link::{Histogram, LinkConfig};

/// Percentage of late packets up to which a trial does not count as late.
pub(crate) const TOLERATED: f64 = 1.0;
/// Lateness that is allowed for every packet. [`SHARE`] of the link's delay is added.
const ALLOWED: Duration = Duration::from_millis(1);
const SHARE: f64 = 0.01;

/// Returns how late packets of a link may be.
pub(super) fn allowed(link: &LinkConfig) -> Duration {
    ALLOWED + link.delay.mul_f64(SHARE)
}

/// Statistics of how late packets left their links, compared with the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    histogram: Histogram,
    beyond: u64,
}

impl Lateness {
    /// Records a packet.
    pub(super) fn record(&mut self, late: Duration, allowed: Duration) {
        self.histogram.record(late);
        self.beyond += u64::from(late > allowed);
    }

    /// Adds the packets of another link.
    pub(super) fn merge(&mut self, other: &Self) {
        self.histogram.merge(&other.histogram);
        self.beyond += other.beyond;
    }

    /// Returns the lateness that this share of the packets (0 to 1) did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        self.histogram.quantile(share)
    }

    /// Returns the percentage of packets that were later than 1 ms plus 1 % of their link's delay. `None` if there were
    /// no packets.
    pub(crate) fn beyond(&self) -> Option<f64> {
        let packets = self.histogram.count();
        (packets > 0).then(|| 100.0 * self.beyond as f64 / packets as f64)
    }
}

/// The place where the links of a trial record their lateness when they are dropped.
pub(super) type Ledger = Arc<Mutex<Lateness>>;

tokio::task_local! {
    static LEDGER: Ledger;
}

/// Returns the ledger of the current trial, if there is one.
pub(super) fn ledger() -> Option<Ledger> {
    LEDGER.try_with(Arc::clone).ok()
}

/// Runs a trial. Returns how late all the links were that it created and dropped.
pub(crate) async fn during<T>(trial: impl Future<Output = T>) -> (T, Lateness) {
    let ledger = Ledger::default();
    let done = LEDGER.scope(ledger.clone(), trial).await;
    let lateness = ledger.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (done, lateness)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_late_beyond_a_millisecond_and_a_hundredth_of_the_delay() {
        let allowed = allowed(&"delay=300ms".parse().unwrap());
        assert_eq!(allowed, Duration::from_millis(4));
        let mut lateness = Lateness::default();
        assert_eq!(lateness.beyond(), None);
        [3, 4, 5].into_iter().for_each(|ms| lateness.record(Duration::from_millis(ms), allowed));
        let mut all = Lateness::default();
        all.record(Duration::ZERO, allowed);
        all.merge(&lateness);
        assert_eq!(all.beyond(), Some(25.0));
        assert_eq!(all.quantile(1.0), Duration::from_millis(5));
    }

    #[tokio::test]
    async fn what_a_trial_made_is_its_own() {
        let note = async {
            let ledger = ledger().unwrap();
            ledger.lock().unwrap().record(Duration::from_millis(2), ALLOWED);
        };
        let ((), lateness) = during(note).await;
        assert_eq!(lateness.beyond(), Some(100.0));
        assert!(ledger().is_none());
    }
}
