//! The time that small writes of a flow wait for others.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// The longest time that anything is gathered.
pub(crate) const LONGEST_GATHER: Duration = Duration::from_millis(500);
/// The bytes that are enough to be written: some packets, or what one block of a compressor takes.
const ENOUGH: usize = 4 * 1024;

/// The wait of small writes, which are then written together.
#[derive(Debug)]
pub(super) struct Gathering {
    wait: Duration,
    /// The end of the wait that has begun.
    until: Option<Pin<Box<Sleep>>>,
}

impl Gathering {
    /// Waits as long as a flow's manner says. `None`: nothing waits.
    pub(super) fn new(wait: Option<Duration>) -> Option<Self> {
        wait.filter(|wait| !wait.is_zero()).map(|wait| Self { wait: wait.min(LONGEST_GATHER), until: None })
    }

    /// The longest wait.
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// The bytes that wait for no others.
    pub(super) fn enough(&self) -> usize {
        ENOUGH
    }

    /// Ready once the wait is over. It begins now, unless it has begun.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(self.wait)));
        ready!(until.as_mut().poll(cx));
        self.until = None;
        Poll::Ready(())
    }

    /// Something is written, so that a wait is over.
    pub(super) fn on_written(&mut self) {
        self.until = None;
    }
}
