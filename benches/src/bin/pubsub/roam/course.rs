//! The progress of a load, which its publisher and subscribers share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::watch;

use super::stamp::TENTHS;

/// The stage of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Subscribers attach.
    Gathering,
    /// Messages are published, and subscribers roam.
    Running,
    /// Nothing more is published. Subscribers that are away come back, and get what is left.
    Over,
}

/// A load under way.
#[derive(Debug)]
pub(crate) struct Course {
    clock: Instant,
    stage: watch::Sender<Stage>,
    /// The messages published so far, by tenth.
    published: [AtomicU64; TENTHS],
    /// The number that each subscriber expects next, if it is connected and up to date.
    progress: Vec<AtomicU64>,
}

/// The progress of a subscriber that nobody waits for.
const ABSENT: u64 = u64::MAX;

impl Course {
    pub(crate) fn new(subscribers: usize) -> Self {
        Self {
            clock: Instant::now(),
            stage: watch::channel(Stage::Gathering).0,
            published: Default::default(),
            progress: (0..subscribers).map(|_| AtomicU64::new(ABSENT)).collect(),
        }
    }

    /// Nanoseconds since the load began.
    pub(crate) fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// Waits for a stage.
    pub(crate) async fn comes(&self, stage: Stage) {
        // The sender is this course's own.
        drop(self.stage.subscribe().wait_for(|now| *now == stage).await);
    }

    /// The messages published so far in a tenth.
    pub(crate) fn published(&self, tenth: usize) -> u64 {
        self.published[tenth].load(Ordering::Relaxed)
    }

    /// Takes the number of the next message of a tenth.
    pub(crate) fn publish(&self, tenth: usize) -> u64 {
        self.published[tenth].fetch_add(1, Ordering::Relaxed)
    }

    /// A subscriber that is connected and up to date expects this number next.
    pub(crate) fn follows(&self, subscriber: usize, next: u64) {
        self.progress[subscriber].store(next, Ordering::Relaxed);
    }

    /// A subscriber is away, or still gets what it missed.
    pub(crate) fn is_away(&self, subscriber: usize) {
        self.follows(subscriber, ABSENT);
    }

    /// By how many messages the slowest subscriber lags that is connected and up to date.
    pub(crate) fn lag(&self) -> u64 {
        let lag = |(subscriber, next): (usize, &AtomicU64)| {
            self.published(tenth_of(subscriber)).saturating_sub(next.load(Ordering::Relaxed))
        };
        self.progress.iter().enumerate().map(lag).max().unwrap_or(0)
    }
}

/// The tenth that a subscriber wants. Those of each tenth begin at different brokers.
pub(crate) fn tenth_of(subscriber: usize) -> usize {
    subscriber / 2 % TENTHS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_those_who_are_there_counts() {
        let course = Course::new(40);
        (0..7).for_each(|_| {
            course.publish(tenth_of(4));
        });
        assert_eq!(course.lag(), 0, "nobody is there");
        course.follows(4, 5);
        course.follows(5, 2);
        course.follows(0, 0);
        assert_eq!(course.lag(), 5);
        course.is_away(5);
        assert_eq!(course.lag(), 2);
    }
}
