//! Connections accepted by the endpoint and not yet taken by the application.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::sync::mpsc;

use crate::lock::lock;
use crate::mocket::Mocket;
use crate::wakers::SharedWakers;

/// The receiving end, which any number of tasks may poll.
pub(crate) struct Accepting {
    accepted: Mutex<mpsc::Receiver<Mocket>>,
    waiting: Arc<SharedWakers>,
    ended: AtomicBool,
}

/// A task that waits. Dropping this removes its waker.
struct Waits<'a> {
    accepting: &'a Accepting,
    waker: Option<Waker>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if let Some(waker) = &self.waker {
            self.accepting.waiting.leave(waker);
        }
    }
}

impl Accepting {
    pub(crate) fn new(accepted: mpsc::Receiver<Mocket>) -> Self {
        Self { accepted: Mutex::new(accepted), waiting: Arc::default(), ended: AtomicBool::new(false) }
    }

    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Mocket>> {
        let mut accepted = lock(&self.accepted);
        // The channel remembers only one waker.
        let all = self.waiting.join(cx.waker());
        match accepted.poll_recv(&mut Context::from_waker(&all)) {
            Poll::Pending if self.ended.load(Ordering::Acquire) => Poll::Ready(None),
            polled => polled,
        }
    }

    /// Waits like `poll_next`. A dropped future leaves no waker behind.
    pub(crate) async fn next(&self) -> Option<Mocket> {
        let mut waits = Waits { accepting: self, waker: None };
        std::future::poll_fn(|cx| {
            waits.waker = Some(cx.waker().clone());
            waits.accepting.poll_next(cx)
        })
        .await
    }

    /// Ends accepting, and wakes the tasks that wait.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.waiting.wake_all();
    }

    pub(crate) fn try_next(&self) -> Option<Mocket> {
        lock(&self.accepted).try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use super::*;

    #[tokio::test]
    async fn regression_those_who_stop_waiting_leave_no_waker() {
        let (_send, accepted) = mpsc::channel(1);
        let accepting = Accepting::new(accepted);
        for _ in 0..100 {
            let mut waiting = Box::pin(accepting.next());
            // Each has its own waker, like separate tasks.
            let waker = Waker::from(Arc::new(SharedWakers::default()));
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        assert_eq!(accepting.waiting.len(), 0);
    }
}
