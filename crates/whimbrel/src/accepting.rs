//! Connections that were accepted and not yet taken by the application.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::sync::mpsc;

use crate::mocket::Mocket;
use crate::shared::lock;
use crate::wakers::SharedWakers;

/// The receiving end, which any number of tasks may poll.
pub(crate) struct Accepting {
    accepted: Mutex<mpsc::Receiver<Mocket>>,
    waiting: Arc<SharedWakers>,
}

impl Accepting {
    pub(crate) fn new(accepted: mpsc::Receiver<Mocket>) -> Self {
        Self { accepted: Mutex::new(accepted), waiting: Arc::default() }
    }

    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Mocket>> {
        let mut accepted = lock(&self.accepted);
        // The channel remembers one waker only.
        let all = self.waiting.join(cx.waker());
        accepted.poll_recv(&mut Context::from_waker(&all))
    }

    pub(crate) fn try_next(&self) -> Option<Mocket> {
        lock(&self.accepted).try_recv().ok()
    }
}
