//! A full queue leads to an error or a wait, as requested. Also what a dropped future leaves behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod join;

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use join::join;
use whimbrel::{Batch, Config, Endpoint, Mocket, Outcome, SendError, Tag, new_identity};

const LIMIT: Duration = Duration::from_millis(20);
const LONG: usize = 100_000;

/// The second end accepts 256 KiB unread, and the first queues three messages.
async fn pair() -> (Endpoint, Endpoint, Mocket, Mocket) {
    let mut listening = Config::listen_as(new_identity());
    listening.transport.session.session_window = 1;
    let mut connecting = Config::default();
    connecting.transport.session.send_queue_messages = 3;
    join(connecting, listening).await
}

fn payload(number: usize) -> Bytes {
    let mut payload = vec![0; LONG];
    payload[0] = number as u8;
    payload.into()
}

/// Sends until nothing moves any more. Returns how many messages were queued.
async fn fill(near: &Mocket) -> usize {
    let patient = near.sender().enqueue_limit(Duration::from_secs(1)).build();
    let mut taken = 0;
    while patient.send(payload(taken)).await.is_ok() {
        taken += 1;
    }
    // Room is reported once half the queue is free, so there may be some left.
    while near.try_send(payload(taken)).is_ok() {
        taken += 1;
    }
    assert!(taken >= 5, "the window and the queue take more than {taken}");
    taken
}

/// Reads this many messages, which must be those sent by `fill`, from number `from` on.
async fn read(far: &Mocket, from: usize, count: usize) {
    for number in from..from + count {
        assert_eq!(far.recv().await.unwrap().payload[0], number as u8);
    }
}

/// Polls a future once. Returns its result if it was ready.
async fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn a_full_queue_is_an_error_at_once_or_after_the_enqueue_limit_or_a_wait() {
    let (_server, _client, near, far) = pair().await;
    let count = fill(&near).await;
    assert_eq!(near.try_send(payload(0)), Err(SendError::QueueFull));
    let limited = near.sender().enqueue_limit(LIMIT).build();
    assert_eq!(limited.try_send(payload(0)), Err(SendError::QueueFull));
    assert_eq!(limited.send(payload(0)).await, Err(SendError::EnqueueTimedOut));
    assert_eq!(limited.send_many([payload(0)]).await, Err(SendError::EnqueueTimedOut));
    assert_eq!(limited.send_tracked(payload(0)).await.err(), Some(SendError::EnqueueTimedOut));
    let mut waiting = pin!(near.send(payload(count)));
    assert!(poll_once(waiting.as_mut()).await.is_none(), "there is no room to wait for");
    let (sent, ()) = tokio::join!(waiting, read(&far, 0, count + 1));
    assert_eq!(sent, Ok(()));
    assert!(far.try_recv().is_none(), "what was refused must not come");
}

#[tokio::test]
async fn a_full_queue_takes_a_replacement_of_what_waits_and_no_other() {
    let (_server, _client, near, far) = pair().await;
    near.tag(Tag(1)).bandwidth(10).unwrap();
    let capped = near.sender().unsequenced().tag(Tag(1)).build();
    capped.send(vec![1; 1000]).await.unwrap();
    capped.send("waits for more than a minute").await.unwrap();
    let count = fill(&near).await;
    assert_eq!(near.replace(Tag(2), "of this nothing waits"), Err(SendError::QueueFull));
    assert_eq!(capped.replace(vec![0; 33 << 20]), Err(SendError::TooLarge { limit: 16 << 20 }));
    capped.replace("takes its place").unwrap();
    near.tag(Tag(1)).priority(100).unwrap();
    let (mut tagged, mut others) = (Vec::new(), 0);
    while tagged.len() < 2 || others < count {
        let message = far.recv().await.unwrap();
        match message.tag {
            Some(_) => tagged.push(message.payload),
            None => others += 1,
        }
    }
    assert_eq!(tagged, [&[1; 1000][..], b"takes its place"]);
    assert!(far.try_recv().is_none(), "what was refused must not come");
}

#[tokio::test]
async fn a_dropped_send_has_queued_nothing_and_a_dropped_send_many_a_first_part() {
    let (_server, _client, near, far) = pair().await;
    let count = fill(&near).await;
    assert!(poll_once(near.send(payload(99))).await.is_none());
    assert!(poll_once(near.sender().build().send_tracked(payload(99))).await.is_none());
    assert!(poll_once(near.sender().build().send_many([payload(99)])).await.is_none());
    read(&far, 0, count).await;
    // Three messages find room, the rest waits.
    let many: Vec<Bytes> = (count..count + 20).map(payload).collect();
    assert!(poll_once(near.sender().build().send_many(many)).await.is_none());
    near.begin_close(0, "");
    let mut next = count;
    while let Ok(message) = far.recv().await {
        assert_eq!(message.payload[0], next as u8, "a first part, in order");
        next += 1;
    }
    assert!((count + 3..count + 20).contains(&next), "{} of 20", next - count);
}

#[tokio::test]
async fn who_has_too_much_unconfirmed_waits_for_the_first_confirmation() {
    let mut connecting = Config::default();
    connecting.transport.session.max_unconfirmed = 1;
    let (_server, _client, near, far) = join(connecting, Config::listen_as(new_identity())).await;
    let confirmed = near.sender().confirm().build();
    let first = confirmed.send_tracked("first").await.unwrap();
    let message = far.recv().await.unwrap();
    // Until a later message is delivered, too, the first one may still count as in flight.
    assert_eq!(
        near.sender().build().send_tracked("plain").await.unwrap().outcome().await,
        Outcome::Delivered
    );
    assert_eq!(far.recv().await.unwrap().payload, "plain");
    let mut waiting = pin!(confirmed.send_tracked("second"));
    // If the sender wrongly found room, it would spin here for ever.
    assert!(poll_once(waiting.as_mut()).await.is_none());
    far.confirm(&message);
    let second = waiting.await.unwrap();
    assert_eq!(first.outcome().await, Outcome::Taken);
    far.confirm(&far.recv().await.unwrap());
    assert_eq!(second.outcome().await, Outcome::Taken);
}

#[tokio::test]
async fn a_dropped_recv_has_taken_nothing() {
    let (_server, _client, near, far) = pair().await;
    assert!(poll_once(near.recv()).await.is_none(), "nothing was sent yet");
    let mut dropped = 0;
    for number in 0..100 {
        far.send(vec![number]).await.unwrap();
        let message = loop {
            if let Some(message) = poll_once(near.recv()).await {
                break message.unwrap();
            }
            dropped += 1;
            tokio::task::yield_now().await;
        };
        assert_eq!(message.payload, [number][..]);
        let mut many = Vec::new();
        assert!(poll_once(near.recv_many(&mut many, 10)).await.is_none() && many.is_empty());
    }
    assert!(dropped > 0, "no call had to wait");
}

#[tokio::test]
async fn lent_messages_are_those_sent_and_a_dropped_call_has_taken_none() {
    let (_server, _client, near, far) = pair().await;
    let mut batch = Batch::new();
    assert!(poll_once(near.recv_batch(&mut batch, 10)).await.is_none() && batch.is_empty());
    far.sender()
        .build()
        .send_many((0..500u16).map(|n| Bytes::copy_from_slice(&n.to_be_bytes())))
        .await
        .unwrap();
    // Another call takes one message and fetches more than it returns.
    assert_eq!(near.recv().await.unwrap().payload, 0u16.to_be_bytes()[..]);
    let mut numbers = Vec::new();
    while numbers.len() < 499 {
        let count = near.recv_batch(&mut batch, 60).await.unwrap();
        assert!(count == batch.len() && (1..=60).contains(&count));
        numbers.extend(batch.iter().map(|message| u16::from_be_bytes(message.payload.try_into().unwrap())));
    }
    assert_eq!(numbers, (1..500).collect::<Vec<u16>>());
    far.close(0, "").await;
    assert!(near.recv_batch(&mut batch, 60).await.is_err() && batch.is_empty());
}
