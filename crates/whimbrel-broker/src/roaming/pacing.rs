//! How much of the fan-out recoveries may take.

use std::collections::BTreeMap;

/// Recoveries may save up so many deliveries, so that they need not begin anew after each of the others.
const MOST_SAVED: f64 = 64.0;

/// Shares the fan-out between live deliveries and recoveries. Recoveries get a floor, the oldest first; what the others leave, they get,
/// too.
#[derive(Debug)]
pub struct Pacing<S> {
    /// Deliveries of recoveries for each live one.
    ratio: f64,
    saved: f64,
    recoveries: BTreeMap<u64, S>,
    next: u64,
}

impl<S: Copy + PartialEq> Pacing<S> {
    /// Recoveries get at least `share` of all deliveries: more than 0, less than 1; the default is a quarter.
    pub fn new(share: f64) -> Self {
        let share = share.clamp(0.01, 0.99);
        Self { ratio: share / (1.0 - share), saved: 0.0, recoveries: BTreeMap::new(), next: 0 }
    }

    /// A subscription begins to recover.
    pub fn begin(&mut self, subscription: S) {
        self.recoveries.insert(self.next, subscription);
        self.next += 1;
    }

    /// A subscription has recovered, or has gone.
    pub fn end(&mut self, subscription: S) {
        self.recoveries.retain(|_, other| *other != subscription);
    }

    /// The number of subscriptions that recover.
    pub fn recovering(&self) -> usize {
        self.recoveries.len()
    }

    /// The subscription whose recovery may deliver next. `live_waits` if a live delivery could be made instead.
    pub fn next(&self, live_waits: bool) -> Option<S> {
        let may = !live_waits || self.saved >= 1.0;
        self.recoveries.first_key_value().filter(|_| may).map(|(_, subscription)| *subscription)
    }

    /// The recovery that is next had no room for a delivery. It is last then.
    pub fn defer(&mut self, subscription: S) {
        self.end(subscription);
        self.begin(subscription);
    }

    /// So many live deliveries were made.
    pub fn on_live(&mut self, deliveries: u32) {
        self.saved = (self.saved + self.ratio * f64::from(deliveries)).min(MOST_SAVED);
    }

    /// So many deliveries of a recovery were made.
    pub fn on_recovered(&mut self, deliveries: u32) {
        self.saved = (self.saved - f64::from(deliveries)).max(0.0);
    }
}

impl<S: Copy + PartialEq> Default for Pacing<S> {
    fn default() -> Self {
        Self::new(0.25)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_starves_the_other() {
        let mut pacing = Pacing::default();
        (0..3).for_each(|subscription| pacing.begin(subscription));
        let mut made = [0; 2];
        for _ in 0..4_000 {
            match pacing.next(true) {
                Some(subscription) => {
                    assert_eq!(subscription, 0, "the oldest first");
                    pacing.on_recovered(1);
                    made[1] += 1;
                }
                None => {
                    pacing.on_live(1);
                    made[0] += 1;
                }
            }
        }
        assert!((990..=1_010).contains(&made[1]), "a quarter: {made:?}");
        assert_eq!(pacing.next(false), Some(0), "all, if nothing else waits");
        pacing.defer(0);
        pacing.end(1);
        assert_eq!((pacing.next(false), pacing.recovering()), (Some(2), 2));
    }
}
