//! Readers that stall hold back no others, and both ends are told of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod join;

use std::time::Duration;

use join::join;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use whimbrel::{Config, Event, Events, Mocket, Stream, new_identity};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
const LONG: u64 = 20_000_000;

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

/// Answers each stream with as many bytes as it asks for.
async fn serve(mocket: Mocket) {
    while let Ok(stream) = mocket.accept_stream().await {
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: Stream) {
    let length = stream.read_u64().await.unwrap();
    // A peer that stops reading does not get the whole answer.
    stream.write_all(&vec![7; length as usize]).await.ok();
    stream.shutdown().await.ok();
}

async fn ask(mocket: &Mocket, length: u64) -> Stream {
    let mut stream = mocket.open_stream().await.unwrap();
    stream.write_u64(length).await.unwrap();
    stream
}

async fn hear(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = events.recv().await.unwrap();
        if wanted(&event) {
            return event;
        }
    }
}

#[tokio::test]
async fn readers_that_stop_hold_back_neither_streams_nor_messages() {
    for stalled in [1, 2, 20] {
        let (_server, _client, near, far) = join(Config::default(), Config::listen_as(new_identity())).await;
        tokio::spawn(serve(far.clone()));
        let (mut near_events, mut far_events) = (near.subscribe(), far.subscribe());
        let mut readers = Vec::new();
        for _ in 0..stalled {
            let mut stream = ask(&near, LONG).await;
            // Each reader reads for a while and then stops.
            soon(stream.read_exact(&mut vec![0; 1 << 20])).await.unwrap();
            readers.push(stream);
        }
        let is_stalled = |event: &Event| matches!(event, Event::ReaderStalled { .. });
        let Event::ReaderStalled { stream, unread } = soon(hear(&mut near_events, is_stalled)).await else {
            unreachable!()
        };
        assert!(unread >= 64 << 10, "{unread}");
        soon(hear(&mut far_events, |event| *event == Event::SendBlocked(stream))).await;
        let credit = near.stream_credit();
        let holder = credit.iter().find(|credit| credit.stream == stream).unwrap();
        assert!(holder.unread_for >= Some(Duration::from_secs(1)), "{credit:?}");
        assert!(near.stats().session.unread_streams >= 1 && far.stats().session.blocked_streams >= 1);

        let mut other = ask(&near, 1 << 20).await;
        soon(other.read_exact(&mut vec![0; 1 << 20])).await.unwrap();
        far.send("a command").await.unwrap();
        assert_eq!(soon(near.recv()).await.unwrap().payload, "a command");
        // A reader that reads again gets the rest.
        let mut rest = Vec::new();
        soon(readers[0].read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest.len() as u64, LONG - (1 << 20));
        near.abort(0, "");
    }
}

#[tokio::test]
async fn messages_nobody_reads_hold_back_no_other_stream() {
    let (_server, _client, near, far) = join(Config::default(), Config::listen_as(new_identity())).await;
    let stalled = near.open_messages(Default::default()).await.unwrap();
    stalled.send("begin").await.unwrap();
    let mut reader = soon(far.accept_messages()).await.unwrap();
    let unread = stalled.sender().build();
    let flood = tokio::spawn(async move { while unread.send(vec![7; 50_000]).await.is_ok() {} });
    soon(async {
        // Waits until these messages fill the queue.
        while near.stats().session.queue_bytes < (31 << 20) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for number in 0..200u32 {
        soon(near.send(number.to_be_bytes().to_vec())).await.unwrap();
        assert_eq!(soon(far.recv()).await.unwrap().payload[..], number.to_be_bytes());
    }
    assert_eq!(soon(reader.recv()).await.unwrap().payload, "begin");
    near.abort(0, "");
    soon(flood).await.unwrap();
}
