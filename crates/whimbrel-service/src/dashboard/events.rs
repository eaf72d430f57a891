//! The events that viewers get.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::snapshot::Snapshot;
use crate::subject::Subject;

/// The time between two events.
const EVERY: Duration = Duration::from_secs(1);
/// The time between two events is at least so many times what one takes to make.
const EVERY_TIMES: u32 = 10;
/// How long a viewer may take to read an event before it is dropped.
pub(super) const SLOW: Duration = Duration::from_secs(10);

/// Makes events as long as there are viewers. The first comes when one `arrived`.
pub(super) async fn make(subject: Arc<Subject>, events: watch::Sender<Bytes>, arrived: Arc<Notify>) {
    loop {
        let began = Instant::now();
        if events.receiver_count() > 0 {
            let subject = Arc::clone(&subject);
            // Each session is visited, so it keeps off the threads that drive them.
            let made = tokio::task::spawn_blocking(move || Snapshot::of(&subject).event()).await;
            if let Ok(event) = made {
                events.send_replace(event.into());
            }
        }
        let took = began.elapsed();
        sleep(took * EVERY_TIMES).await;
        tokio::select! {
            () = sleep(EVERY.saturating_sub(began.elapsed())) => {}
            () = arrived.notified() => {}
        }
    }
}

/// Hands events to one viewer, who gets the newest only. One that takes longer than `patience` for one is to `drop` its connection.
pub(super) async fn follow(
    mut events: watch::Receiver<Bytes>,
    to: mpsc::Sender<Bytes>,
    (drop, patience): (Arc<Notify>, Duration),
    _place: OwnedSemaphorePermit,
) {
    loop {
        tokio::select! {
            () = to.closed() => return,
            changed = events.changed() => if changed.is_err() { return },
        }
        let event = events.borrow_and_update().clone();
        match timeout(patience, to.send(event)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => return drop.notify_one(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_viewer_that_does_not_read_is_dropped_and_its_place_is_free() {
        let (events, places) = (watch::channel(Bytes::new()).0, Arc::new(Semaphore::new(1)));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let (send, mut read) = mpsc::channel(1);
        let dropped = Arc::new(Notify::new());
        let patience = Duration::from_millis(20);
        let following =
            tokio::spawn(follow(events.subscribe(), send, (Arc::clone(&dropped), patience), place));
        // The newest is what a viewer gets who comes to read late.
        events.send_replace("one".into());
        assert_eq!(read.recv().await.unwrap(), "one");
        assert_eq!(places.available_permits(), 0);
        // One waits, and for the next there is no room.
        while !following.is_finished() {
            events.send_replace("more".into());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        dropped.notified().await;
        assert_eq!(places.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_viewer_that_went_gives_its_place_back_without_an_event() {
        let (events, places) = (watch::channel(Bytes::new()).0, Arc::new(Semaphore::new(1)));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let (send, read) = mpsc::channel(1);
        let following = tokio::spawn(follow(events.subscribe(), send, (Arc::default(), SLOW), place));
        drop(read);
        following.await.unwrap();
        assert_eq!(places.available_permits(), 1);
    }
}
