//! The wait until other brokers have a message on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};
use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{BrokerId, Origin, Stamp};

use super::members::Members;
use crate::durable::Copies;

/// The most messages of other runs that are asked about at once.
const MOST_ASKED: usize = 1_024;

/// The copies of a channel's messages, and who waits for them.
#[derive(Debug)]
pub(super) struct Copying {
    inner: Mutex<Inner>,
    members: Arc<Members>,
    peers: Vec<BrokerId>,
    needed: usize,
    within: Duration,
}

#[derive(Debug)]
struct Inner {
    copies: Copies,
    /// The peers that can keep the channel on disk.
    keepers: BTreeSet<BrokerId>,
    /// Those that wait, each with a number of its own.
    wakers: BTreeMap<(Origin, u64, u64), Waker>,
    last: u64,
}

/// Waits until enough brokers have a message.
pub(super) struct Copied {
    copying: Arc<Copying>,
    origin: Origin,
    sequence: u64,
    number: u64,
    until: Instant,
    /// Made when it begins to wait: most messages never do for long.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Copying {
    /// Messages of `own` have to be at `needed` of the peers, within this time.
    pub(super) fn new(
        own: Origin,
        peers: &[BrokerId],
        (needed, within): (usize, Duration),
        members: Arc<Members>,
    ) -> Self {
        let copies = Copies::new(own, peers, needed);
        let inner = Mutex::new(Inner { copies, keepers: BTreeSet::new(), wakers: BTreeMap::new(), last: 0 });
        Self { inner, members, peers: peers.to_vec(), needed, within }
    }

    /// How long a message may wait.
    pub(super) fn within(&self) -> Duration {
        self.within
    }

    /// A broker says whether it can keep the channel on disk.
    pub(super) fn meet(&self, broker: BrokerId, keeps: bool) {
        let mut inner = self.inner();
        if keeps && self.peers.contains(&broker) {
            inner.keepers.insert(broker);
        } else {
            inner.keepers.remove(&broker);
        }
    }

    /// Checks that enough brokers that can keep a copy are linked.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if self.needed == 0 {
            return Ok(());
        }
        let linked: Vec<_> = self.peers.iter().filter(|peer| self.members.is_linked(**peer)).collect();
        let keep = {
            let inner = self.inner();
            linked.iter().filter(|peer| inner.keepers.contains(peer)).count()
        };
        if keep >= self.needed { Ok(()) } else { Err(self.refusal(keep, linked.len() - keep)) }
    }

    /// Returns the wait for a message; `None` if no copy is needed.
    pub(super) fn wait(self: &Arc<Self>, stamp: &Stamp) -> Option<Copied> {
        if self.needed == 0 {
            return None;
        }
        let (origin, sequence) = (stamp.origin, stamp.sequence);
        let mut inner = self.inner();
        inner.copies.seek(origin, sequence);
        inner.last += 1;
        let number = inner.last;
        drop(inner);
        let (copying, until) = (Arc::clone(self), Instant::now() + self.within);
        Some(Copied { copying, origin, sequence, number, until, timer: None })
    }

    /// A broker has these messages on disk.
    pub(super) fn confirm(&self, by: BrokerId, origin: Origin, ranges: &[Range]) {
        let mut inner = self.inner();
        let mut woken = Vec::new();
        for range in ranges {
            inner.copies.confirm(by, origin, *range);
            let waiting = inner.wakers.range((origin, range.first, 0)..=(origin, range.last, u64::MAX));
            let enough =
                waiting.map(|(key, _)| *key).filter(|(_, at, _)| inner.copies.is_enough(origin, *at));
            for key in enough.collect::<Vec<_>>() {
                woken.extend(inner.wakers.remove(&key));
            }
        }
        drop(inner);
        woken.into_iter().for_each(Waker::wake);
    }

    /// The messages of other runs that other brokers are to be asked about.
    pub(super) fn sought(&self) -> Vec<(Origin, Ranges)> {
        if self.needed == 0 { Vec::new() } else { self.inner().copies.sought(MOST_ASKED) }
    }

    /// The refusal if so few of the linked brokers keep the channel, and so many do not.
    fn refusal(&self, keep: usize, others: usize) -> Refusal {
        let (wanted, have) = (self.needed + 1, keep + 1);
        let brokers = if have == 1 { "only this broker is" } else { "too few brokers are" };
        let not_counted = if others == 0 {
            String::new()
        } else {
            format!(
                "; {others} that are linked do not count, since the channel is not durable there, or not there at all"
            )
        };
        let why = format_args!(
            "a message of this channel has to be on {wanted} brokers' disks, and {brokers} within reach ({have}){not_counted}: publish it again later, \
             or lower `replicas`"
        );
        Refusal::new(RefusalCode::Unavailable, why)
    }

    fn late(&self) -> Refusal {
        let why = format_args!(
            "too few brokers confirmed within {:?} that they have the message on disk; {} must. It may be delivered anyway: \
             publish it again later",
            self.within,
            self.needed + 1
        );
        Refusal::new(RefusalCode::Unavailable, why)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Copied {
    type Output = Result<(), Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let key = (this.origin, this.sequence, this.number);
        {
            let mut inner = this.copying.inner();
            if inner.copies.is_enough(this.origin, this.sequence) {
                inner.wakers.remove(&key);
                return Poll::Ready(Ok(()));
            }
            inner.wakers.insert(key, cx.waker().clone());
        }
        let until = this.until;
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(this.copying.late())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let mut inner = self.copying.inner();
        inner.wakers.remove(&(self.origin, self.sequence, self.number));
        inner.copies.give_up(self.origin, self.sequence);
    }
}

impl fmt::Debug for Copied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copied").field("origin", &self.origin).field("sequence", &self.sequence).finish()
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::message::{Hlc, PartitionId};

    use super::*;

    const OWN: Origin = Origin { broker: BrokerId(1), epoch: 7 };
    const PEER: BrokerId = BrokerId(2);

    fn stamp(sequence: u64) -> Stamp {
        Stamp { origin: OWN, sequence, partition: PartitionId(0), ordinal: sequence, published: Hlc(1) }
    }

    fn copying(within: Duration) -> (Arc<Members>, Arc<Copying>) {
        let members = Arc::<Members>::default();
        let copying = Arc::new(Copying::new(OWN, &[PEER], (1, within), Arc::clone(&members)));
        (members, copying)
    }

    #[tokio::test]
    async fn a_message_waits_for_its_copy() {
        let (members, copying) = copying(Duration::from_secs(3_600));
        assert!(copying.check().unwrap_err().reason.contains("on 2 brokers' disks"));
        let _link = members.join(PEER);
        copying.meet(PEER, true);
        assert!(copying.check().is_ok());
        let waiting = tokio::spawn(copying.wait(&stamp(3)).unwrap());
        tokio::task::yield_now().await;
        copying.confirm(PEER, OWN, &[Range { first: 1, last: 3 }]);
        assert!(waiting.await.unwrap().is_ok());
        assert!(copying.inner().wakers.is_empty());
        assert!(copying.wait(&stamp(2)).unwrap().await.is_ok(), "it was confirmed before");
    }

    /// The publisher would be accepted, and then wait for nothing.
    #[tokio::test]
    async fn regression_a_broker_that_does_not_keep_the_channel_is_no_possible_copy() {
        let (members, copying) = copying(Duration::from_secs(3_600));
        copying.meet(PEER, true);
        assert!(copying.check().is_err(), "it is not linked");
        let _link = members.join(PEER);
        assert!(copying.check().is_ok());
        copying.meet(PEER, false);
        let refused = copying.check().unwrap_err();
        assert!(refused.reason.contains("1 that are linked do not count"), "{refused:?}");
        copying.meet(BrokerId(9), true);
        let _stranger = members.join(BrokerId(9));
        assert!(copying.check().is_err(), "it is none of the configured peers");
    }

    #[tokio::test]
    async fn a_message_does_not_wait_for_good() {
        let (_, copying) = copying(Duration::from_millis(1));
        let late = copying.wait(&stamp(4)).unwrap().await.unwrap_err();
        assert!(late.reason.contains("too few brokers confirmed within 1ms"), "{late:?}");
        assert!(copying.inner().wakers.is_empty());
    }
}
