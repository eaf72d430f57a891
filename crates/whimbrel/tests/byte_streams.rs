//! Byte streams through the library: how they end, and how the other end learns of it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod join;

use std::io::ErrorKind;
use std::pin::Pin;
use std::task::Poll;

use join::join;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use whimbrel::{
    CloseReason, Config, Endpoint, Event, Mocket, Stream, StreamCode, StreamIoError, StreamOpenError,
    SuspendMode, SuspendedMocket, new_identity,
};

async fn pair() -> (Endpoint, Endpoint, Mocket, Mocket) {
    join(Config::default(), Config::listen_as(new_identity())).await
}

/// Opens a stream that carries `first`, and returns it with its other end.
async fn opened(near: &Mocket, far: &Mocket, first: &[u8]) -> (Stream, Stream) {
    let mut here = near.open_stream().await.unwrap();
    here.write_all(first).await.unwrap();
    (here, far.accept_stream().await.unwrap())
}

fn inner(error: &std::io::Error) -> &StreamIoError {
    error.get_ref().unwrap().downcast_ref().unwrap()
}

#[tokio::test]
async fn writing_nothing_is_done_at_once() {
    let (_server, _client, near, far) = pair().await;
    let (mut here, mut there) = opened(&near, &far, b"x").await;
    let at_once = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut here).poll_write(cx, b""))).await;
    assert!(matches!(at_once, Poll::Ready(Ok(0))), "{at_once:?}");
    here.shutdown().await.unwrap();
    let mut all = Vec::new();
    there.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"x");
    assert_eq!(inner(&here.write(b"").await.unwrap_err()), &StreamIoError::Ended);
}

/// It once said that this end had ended the stream.
#[tokio::test]
async fn regression_writing_to_a_peer_that_closes_says_why_it_closes() {
    let (_server, _client, near, far) = pair().await;
    let mut events = near.subscribe();
    let (mut here, _there) = opened(&near, &far, b"x").await;
    // Nobody reads this much, so the close cannot complete.
    for _ in 0..100 {
        near.send(vec![0; 10_000]).await.unwrap();
    }
    far.begin_close(7, "bye");
    while !matches!(events.recv().await.unwrap(), Event::PeerClosing(_)) {}
    for _ in 0..2 {
        let late = here.write(b"too late").await.unwrap_err();
        let StreamIoError::Closed(CloseReason::Peer(reason)) = inner(&late) else { panic!("{late:?}") };
        assert_eq!((late.kind(), reason.code), (ErrorKind::ConnectionAborted, 7));
    }
}

#[tokio::test]
async fn a_reset_is_told_by_each_read() {
    let (_server, _client, near, far) = pair().await;
    let (mut here, mut there) = opened(&near, &far, b"x").await;
    there.read_u8().await.unwrap();
    here.reset(42);
    for _ in 0..3 {
        let error = there.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(
            (error.kind(), inner(&error)),
            (ErrorKind::ConnectionReset, &StreamIoError::Reset(StreamCode(42)))
        );
    }
    assert!(here.shutdown().await.is_err(), "what was reset does not end well");
}

#[tokio::test]
async fn a_stop_is_told_by_each_write() {
    let (_server, _client, near, far) = pair().await;
    let (mut here, mut there) = opened(&near, &far, b"x").await;
    there.stop(77);
    let first = loop {
        if let Err(error) = here.write(&[0; 100]).await {
            break error;
        }
        tokio::task::yield_now().await;
    };
    let again = here.write(&[0; 100]).await.unwrap_err();
    let ended = here.shutdown().await.unwrap_err();
    for error in [first, again, ended] {
        assert_eq!(
            (error.kind(), inner(&error)),
            (ErrorKind::BrokenPipe, &StreamIoError::Stopped(StreamCode(77)))
        );
    }
    assert!(there.read(&mut [0; 8]).await.is_err(), "what this end has stopped has no clean end");
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_reset_and_one_that_was_shut_down_is_not() {
    let (_server, _client, near, far) = pair().await;
    let (here, mut there) = opened(&near, &far, b"a part").await;
    drop(here);
    let error = there.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(
        (error.kind(), inner(&error)),
        (ErrorKind::ConnectionReset, &StreamIoError::Reset(StreamCode(0)))
    );

    let (mut here, mut there) = opened(&near, &far, b"the whole").await;
    here.shutdown().await.unwrap();
    drop(here);
    let mut all = Vec::new();
    there.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"the whole");
    // Its reader was dropped with it.
    while there.write(b"is anybody there?").await.is_ok() {
        tokio::task::yield_now().await;
    }
    let error = there.write(b"nobody").await.unwrap_err();
    assert_eq!(inner(&error), &StreamIoError::Stopped(StreamCode(0)));
}

#[tokio::test]
async fn a_writer_that_panics_does_not_end_well() {
    let (_server, _client, near, far) = pair().await;
    let (mut here, mut there) = opened(&near, &far, b"half of ").await;
    let writing = tokio::spawn(async move {
        here.write_all(b"it").await.unwrap();
        panic!("as planned by the test");
    });
    assert!(writing.await.unwrap_err().is_panic());
    let error = there.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// Pseudo-random bytes.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

async fn host(identity: &whimbrel::Identity) -> Endpoint {
    let config = Config::default().identity(identity.clone());
    Endpoint::bind(config, "127.0.0.1:0").await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_came_and_were_not_taken_go_with_the_session() {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    for seed in 0..40 {
        let mut noise = Noise(seed);
        let length = 1 + noise.next() as usize % 300_000;
        let all = noise.bytes(length);
        let identity = new_identity();
        let near = host(&identity).await.connect(&url).await.unwrap();
        let far = server.accept().await.unwrap();
        let mut from = far.open_stream().await.unwrap();
        let sent = all.clone();
        let writing = tokio::spawn(async move {
            from.write_all(&sent).await.unwrap();
            from.shutdown().await.unwrap();
        });

        let mut stream = near.accept_stream().await.unwrap();
        let id = stream.id();
        let enough = noise.next() as usize % all.len();
        let mut came = Vec::new();
        let mut buffer = [0; 3000];
        while came.len() < enough {
            let size = 1 + noise.next() as usize % buffer.len();
            let count = stream.read(&mut buffer[..size]).await.unwrap();
            came.extend_from_slice(&buffer[..count]);
        }
        let state = near.suspend(SuspendMode::Snapshot).await.unwrap();
        for _ in 0..2 {
            let error = stream.read(&mut buffer).await.unwrap_err();
            assert_eq!(inner(&error), &StreamIoError::Closed(CloseReason::Suspended));
        }
        drop(stream);

        let state = SuspendedMocket::from_bytes(&state.to_bytes()).unwrap();
        let near = host(&identity).await.resume(&state, None).await.unwrap();
        let mut stream = near.stream(id).unwrap();
        stream.read_to_end(&mut came).await.unwrap();
        assert!(came == all, "seed {seed}: {} of {} bytes", came.len(), all.len());
        writing.await.unwrap();
        near.close(0, "").await;
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_while_its_session_leaves_goes_on_elsewhere() {
    let identity = new_identity();
    let (server, client, near, far) =
        join(Config::default().identity(identity.clone()), Config::listen_as(new_identity())).await;
    let (here, mut there) = opened(&near, &far, b"begun here, ").await;
    let messages = near.open_messages(whimbrel::StreamOptions::default()).await.unwrap();
    messages.send("also").await.unwrap();
    let ids = (here.id(), messages.id());
    let state = {
        let mut leaving = Box::pin(near.suspend(SuspendMode::Snapshot));
        std::future::poll_fn(|cx| Poll::Ready(leaving.as_mut().poll(cx).is_pending())).await;
        drop((here, messages));
        leaving.await.unwrap()
    };
    let back = host(&identity).await.resume(&state, None).await.unwrap();
    assert_eq!((back.byte_streams(), back.message_streams()), (vec![ids.0], vec![ids.1]));
    let mut here = back.stream(ids.0).unwrap();
    here.write_all(b"ended there").await.unwrap();
    here.shutdown().await.unwrap();
    let mut whole = String::new();
    there.read_to_string(&mut whole).await.unwrap();
    assert_eq!(whole, "begun here, ended there");
    drop((server, client));
}

#[tokio::test]
async fn a_message_stream_of_a_session_that_left_has_not_ended() {
    let (_server, _client, near, far) = pair().await;
    let stream = near.open_messages(whimbrel::StreamOptions::default()).await.unwrap();
    stream.send("first").await.unwrap();
    let mut reader = far.accept_messages().await.unwrap();
    assert_eq!(reader.recv().await.unwrap().payload, "first");
    drop(far.suspend(SuspendMode::Snapshot).await.unwrap());
    let closed = whimbrel::StreamRecvError::Closed(CloseReason::Suspended);
    assert_eq!(reader.recv().await.unwrap_err(), closed);
}

#[tokio::test]
async fn an_opening_is_there_on_accept_and_is_none_of_the_bytes() {
    let (_server, _client, near, far) = pair().await;
    let mut out = near.open_stream_with("example.org:443").await.unwrap();
    out.write_bytes("the first bytes".into()).await.unwrap();
    out.shutdown().await.unwrap();
    let mut stream = far.accept_stream().await.unwrap();
    assert_eq!(stream.opening(), "example.org:443");
    let mut got = Vec::new();
    stream.read_to_end(&mut got).await.unwrap();
    assert_eq!(got, b"the first bytes");
    assert!(out.opening().is_empty());
    // An opening travels without any data, too, even an empty one. A stream without an opening has none.
    for opening in ["alone", ""] {
        let _held = near.open_stream_with(opening).await.unwrap();
        assert_eq!(far.accept_stream().await.unwrap().opening(), opening);
    }
    let too_long = near.open_stream_with([0; whimbrel::MAX_OPENING + 1]).await;
    assert_eq!(too_long.unwrap_err(), StreamOpenError::OpeningTooLong);
}

#[tokio::test]
async fn the_halves_live_apart_and_end_what_is_theirs() {
    let (_server, _client, near, far) = pair().await;
    let (near_reader, mut near_writer) = near.open_stream().await.unwrap().into_split();
    near_writer.write_bytes("half".into()).await.unwrap();
    let (mut far_reader, mut far_writer) = far.accept_stream().await.unwrap().into_split();
    drop(near_reader);
    assert_eq!(far_writer.stopped().await.unwrap(), Some(StreamCode::DROPPED));
    let error = far_writer.write_bytes("x".into()).await.unwrap_err();
    assert_eq!(error, StreamIoError::Stopped(StreamCode::DROPPED));
    // The other direction goes on.
    near_writer.write_bytes(" and half".into()).await.unwrap();
    near_writer.shutdown().await.unwrap();
    let mut got = Vec::new();
    while let Some(bytes) = far_reader.read_bytes(3).await.unwrap() {
        assert!(bytes.len() <= 3);
        got.extend_from_slice(&bytes);
    }
    assert_eq!(got, b"half and half");
    assert_eq!(near_writer.stopped().await.unwrap(), None, "the peer has all of it");
    drop(far_reader);
    assert_eq!(near_writer.stopped().await.unwrap(), None);
}

#[tokio::test]
async fn codes_can_be_matched_on_also_when_the_stream_is_over() {
    let (_server, _client, near, far) = pair().await;
    let (mut near_reader, mut near_writer) = near.open_stream_with("x").await.unwrap().into_split();
    let (mut far_reader, mut far_writer) = far.accept_stream().await.unwrap().into_split();
    far_reader.stop(41);
    far_writer.reset(42);
    let error = near_reader.read_u8().await.unwrap_err();
    assert_eq!(StreamIoError::of(&error), Some(&StreamIoError::Reset(StreamCode(42))));
    // By now both directions have ended and the session has forgotten the stream.
    while !near.byte_streams().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(near_writer.stopped().await.unwrap(), Some(StreamCode(41)));
    let error = near_writer.write_all(b"more").await.unwrap_err();
    assert_eq!(StreamIoError::of(&error), Some(&StreamIoError::Stopped(StreamCode(41))));
}

#[tokio::test]
async fn slices_are_written_together_in_their_order() {
    let (_server, _client, near, far) = pair().await;
    let mut out = near.open_stream().await.unwrap();
    assert!(out.is_write_vectored());
    let slices = [&b"one, "[..], b"", b"two, ", b"three"].map(std::io::IoSlice::new);
    assert_eq!(out.write_vectored(&slices).await.unwrap(), 15);
    let long = vec![7; 100_000];
    let taken =
        out.write_vectored(&[std::io::IoSlice::new(&long), std::io::IoSlice::new(b"x")]).await.unwrap();
    out.shutdown().await.unwrap();
    let mut got = Vec::new();
    far.accept_stream().await.unwrap().read_to_end(&mut got).await.unwrap();
    assert_eq!((&got[..15], got.len()), (&b"one, two, three"[..], 15 + taken));
}
