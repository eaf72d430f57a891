//! A client's share of what waits for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The most bytes of one client that wait for the disk (1 MiB), the last message not counted: an eighth of what waits in a log. What is
/// beyond waits for these.
const SHARE: usize = 1 << 20;
/// The bytes that a message counts beside its own.
const EACH: usize = 128;

/// The bytes of one client that wait for the disk, whatever the number of its sessions.
#[derive(Debug, Default)]
pub(crate) struct Share {
    waiting: AtomicUsize,
    room: Notify,
}

/// A message that waits. Dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Charge {
    share: Arc<Share>,
    bytes: usize,
}

impl Share {
    /// Whether further messages have to wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > SHARE
    }

    /// Waits until there is room. Whoever waited and then charged what it had calls [`Share::pass_on`].
    pub(crate) async fn room(&self) {
        while self.is_full() {
            self.room.notified().await;
        }
    }

    /// Wakes the next that waits, if there is room for it, too.
    pub(crate) fn pass_on(&self) {
        if !self.is_full() {
            self.room.notify_one();
        }
    }

    /// A message of so many bytes waits from now on.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        let bytes = bytes + EACH;
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        Charge { share: Arc::clone(self), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.share.waiting.fetch_sub(self.bytes, Ordering::Relaxed);
        self.share.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sessions_of_a_client_share_and_all_who_wait_go_on() {
        let share = Arc::<Share>::default();
        let mut charges: Vec<_> = (0..2).map(|_| share.charge(SHARE / 2)).collect();
        assert!(share.is_full(), "with what each counts beside its bytes");
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let share = Arc::clone(&share);
                tokio::spawn(async move {
                    share.room().await;
                    let charge = share.charge(10);
                    share.pass_on();
                    charge
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        charges.pop();
        for waiting in waiting {
            charges.push(waiting.await.unwrap());
        }
        assert!(!share.is_full());
        drop(charges);
        assert_eq!(share.waiting.load(Ordering::Relaxed), 0);
    }
}
