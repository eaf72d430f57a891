//! A connection: its machine, with the clock and the interface.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::machine::Machine;
use crate::intercept::tun::device::Device;

/// How long a connection may take to end after nobody here has to do with it any more.
const ENDING: Duration = Duration::from_secs(60);
/// The time until it is looked at again if nothing is due.
const LONG: Duration = Duration::from_secs(3_600);

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    device: Arc<Device>,
    began: Instant,
    inner: Mutex<Inner>,
    /// Something is due earlier than it was.
    sooner: Notify,
    was_reset: watch::Sender<bool>,
}

#[derive(Debug)]
struct Inner {
    machine: Machine,
    /// When something is due.
    due: Option<Duration>,
    /// Since when nobody has to do with it.
    left: Option<Duration>,
}

impl Connection {
    pub(super) fn new(machine: Machine, device: Arc<Device>) -> Self {
        let inner = Mutex::new(Inner { machine, due: None, left: None });
        let (sooner, was_reset) = (Notify::new(), watch::channel(false).0);
        Self { device, began: Instant::now(), inner, sooner, was_reset }
    }

    pub(super) fn on_packet(&self, packet: Vec<u8>) {
        self.act(|machine| machine.on_packet(packet));
    }

    /// Does something with the machine, and then what follows from it.
    pub(super) fn act<T>(&self, what: impl FnOnce(&mut Machine) -> T) -> T {
        let mut inner = self.lock();
        let now = self.began.elapsed();
        let done = what(&mut inner.machine);
        inner.machine.advance(now);
        while let Some(packet) = inner.machine.poll_packet() {
            self.device.write_bare(&packet);
        }
        let (before, due) = (inner.due, inner.machine.due(now));
        inner.due = due;
        if inner.machine.is_closed() || due.is_some_and(|due| before.is_none_or(|before| due < before)) {
            self.sooner.notify_one();
        }
        if inner.machine.was_reset() && !*self.was_reset.borrow() {
            self.was_reset.send_replace(true);
        }
        done
    }

    /// Waits until the program has answered, or is gone. Returns whether it has.
    pub(super) async fn established(&self) -> bool {
        poll_fn(|cx| {
            let mut inner = self.lock();
            if inner.machine.is_established() {
                return Poll::Ready(true);
            }
            if inner.machine.is_closed() {
                return Poll::Ready(false);
            }
            // The socket is ready to write then.
            inner.machine.wake_writer(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Waits until the program has ended it by a reset.
    pub(super) fn was_reset(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut was_reset = self.was_reset.subscribe();
        async move {
            if was_reset.wait_for(|reset| *reset).await.is_err() {
                // It has ended otherwise.
                std::future::pending::<()>().await;
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().machine.is_closed()
    }

    pub(super) fn abort(&self) {
        self.act(Machine::abort);
    }

    /// Nobody has to do with it any more. It ends by itself, if it was finished.
    pub(super) fn leave(&self, is_finished: bool) {
        self.lock().left = Some(self.began.elapsed());
        self.act(|machine| {
            if !is_finished {
                machine.abort();
            }
        });
        self.sooner.notify_one();
    }

    /// Does what is due until it is over.
    pub(super) async fn tend(&self) {
        loop {
            let (is_closed, due, left) = {
                let inner = self.lock();
                (inner.machine.is_closed(), inner.due, inner.left)
            };
            if is_closed {
                return;
            }
            let end = left.map(|left| left + ENDING);
            if end.is_some_and(|end| self.began.elapsed() >= end) {
                return self.abort();
            }
            let next = due.into_iter().chain(end).min().unwrap_or_else(|| self.began.elapsed() + LONG);
            tokio::select! {
                () = self.sooner.notified() => {}
                () = sleep_until(self.began + next) => self.act(|_| {}),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
