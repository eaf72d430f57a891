//! Several message streams through the library.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod join;

use std::time::Duration;

use join::join;
use whimbrel::{
    Config, CreditPolicy, Endpoint, Mocket, Outcome, SendError, StreamId, StreamOptions, StreamOptionsError,
    StreamRecvError, Tag, new_identity,
};

async fn pair() -> (Endpoint, Endpoint, Mocket, Mocket) {
    join(Config::default(), Config::listen_as(new_identity())).await
}

#[tokio::test]
async fn a_stream_that_nobody_accepts_is_named_in_its_messages() {
    let (_server, _client, near, far) = pair().await;
    let stream = near.open_messages(StreamOptions::default()).await.unwrap();
    stream.send("on a stream").await.unwrap();
    let message = far.recv().await.unwrap();
    assert_eq!((message.stream, &message.payload[..]), (stream.id(), &b"on a stream"[..]));
    assert_ne!(message.stream, StreamId(0));
}

#[tokio::test]
async fn streams_are_accepted_and_answered_and_a_stalled_one_holds_back_no_other() {
    let (_server, _client, near, far) = pair().await;
    let options = StreamOptions::default().priority(30);
    let bulk = near.open_messages(options).await.unwrap();
    let mut talk = near.open_messages(StreamOptions::default()).await.unwrap();
    // More than a stream's window, and nobody reads it.
    for _ in 0..80 {
        bulk.send(vec![0; 100_000]).await.unwrap();
    }
    let far_bulk = far.accept_messages().await.unwrap();
    assert_eq!(far_bulk.id(), bulk.id());
    talk.send("question").await.unwrap();
    let mut far_talk = far.accept_messages().await.unwrap();
    assert_eq!(far_talk.recv().await.unwrap().payload, "question");
    far_talk.send("answer").await.unwrap();
    assert_eq!(talk.recv().await.unwrap().payload, "answer");
    near.send("the default stream").await.unwrap();
    assert_eq!(far.recv().await.unwrap().payload, "the default stream");
    assert_eq!(far_bulk.try_recv().unwrap().priority, 30);
    assert_eq!(bulk.options(), options);
    // Once the handle is dropped, its messages are received from the mocket.
    drop(far_bulk);
    for _ in 1..80 {
        assert_eq!(far.recv().await.unwrap().stream, bulk.id());
    }
}

#[tokio::test]
async fn a_slow_reader_of_the_latest_gets_the_newest() {
    let (_server, _client, near, far) = pair().await;
    let stream = near.open_messages(StreamOptions::default()).await.unwrap();
    stream.send("begin").await.unwrap();
    let mut reader = far.accept_messages().await.unwrap();
    assert_eq!(reader.recv().await.unwrap().payload, "begin");
    let latest = reader.options().credit(CreditPolicy::Latest { unread: 1 });
    reader.set_options(latest).unwrap();
    let refused = far.set_stream_options(StreamId(0), latest);
    assert_eq!(refused, Err(StreamOptionsError::SharedInbox));

    let values = stream.sender().unreliable().build();
    // Ten times the stream's window. If credit were given back only on reading, this would never end.
    for number in 0..400u32 {
        let mut value = vec![0; 100_000];
        value[..4].copy_from_slice(&number.to_be_bytes());
        values.send(value).await.unwrap();
    }
    while values.send_tracked("the newest").await.unwrap().outcome().await != Outcome::Delivered {}
    let stats = far.stats().session;
    assert!(stats.discarded > 0, "{stats:?}");
    let message = reader.recv().await.unwrap();
    assert_eq!(message.payload, "the newest");
    assert!(reader.try_recv().is_none());
}

#[tokio::test]
async fn tags_of_a_stream_are_its_own() {
    let (_server, _client, near, far) = pair().await;
    let stream = near.open_messages(StreamOptions::default()).await.unwrap();
    stream.tag(Tag(5)).priority(7).unwrap().lifetime(Duration::from_secs(60)).unwrap();
    for sender in [stream.sender(), near.sender()] {
        sender.tag(Tag(5)).build().send("tagged").await.unwrap();
    }
    let mut priorities = vec![];
    for _ in 0..2 {
        let message = far.recv().await.unwrap();
        priorities.push((message.stream == stream.id(), message.priority));
    }
    priorities.sort_unstable();
    assert_eq!(priorities, [(false, 100), (true, 7)]);
    near.close(0, "").await;
    let counted: Vec<(bool, u64)> =
        near.stats().tags.iter().map(|tag| (tag.stream == stream.id(), tag.sent.delivered)).collect();
    assert_eq!(counted, [(false, 1), (true, 1)]);
    assert!(far.stats().tags.iter().all(|tag| (tag.tag, tag.received_bytes) == (Tag(5), 6)));
    assert_eq!(stream.cancel(Tag(5)), 0);
    assert!(stream.send("too late").await.is_err());
}

#[tokio::test]
async fn a_reader_of_a_stream_hears_of_the_end() {
    let (_server, _client, near, far) = pair().await;
    let stream = near.open_messages(StreamOptions::default()).await.unwrap();
    stream.send("last").await.unwrap();
    let mut reader = far.accept_messages().await.unwrap();
    let reading = tokio::spawn(async move {
        let first = reader.recv().await;
        (first, reader.recv().await)
    });
    near.close(0, "").await;
    let (first, end) = reading.await.unwrap();
    assert_eq!(first.unwrap().payload, "last");
    assert!(end.is_err());
}

#[tokio::test]
async fn a_stream_a_question_for_as_many_as_there_are() {
    let (_server, _client, near, far) = pair().await;
    let answering = tokio::spawn(async move {
        while let Ok(mut stream) = far.accept_messages().await {
            while let Ok(question) = stream.recv().await {
                stream.send(question.payload).await.unwrap();
            }
        }
    });
    // More streams than may be open at a time.
    for number in 0..400u32 {
        let mut stream = near.open_messages(StreamOptions::default()).await.unwrap();
        stream.send(number.to_be_bytes().to_vec()).await.unwrap();
        assert_eq!(stream.recv().await.unwrap().payload[..], number.to_be_bytes());
    }
    near.close(0, "").await;
    answering.await.unwrap();
}

#[tokio::test]
async fn a_reader_hears_that_the_other_end_was_dropped() {
    let (_server, _client, near, far) = pair().await;
    let stream = near.open_messages(StreamOptions::default()).await.unwrap();
    let sender = stream.sender().build();
    stream.send("last").await.unwrap();
    let mut reader = far.accept_messages().await.unwrap();
    drop(stream);
    assert_eq!(reader.recv().await.unwrap().payload, "last");
    assert_eq!(reader.recv().await.unwrap_err(), StreamRecvError::Ended);
    assert_eq!(sender.send("too late").await, Err(SendError::NoStream));
    // The other direction goes on, and its messages are received from the mocket.
    reader.send("after all").await.unwrap();
    assert_eq!(near.recv().await.unwrap().payload, "after all");
}
