//! Sessions that are suspended on one endpoint and resumed on another, over real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use whimbrel::{
    CloseReason, Config, CreditPolicy, Endpoint, Event, Identity, MessageStream, Mocket, Outcome,
    ResumeError, SealError, SendError, StreamOptions, SuspendError, SuspendMode, SuspendedMocket,
    new_identity,
};

async fn listener() -> (Endpoint, String) {
    let endpoint = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr().unwrap());
    (endpoint, url)
}

async fn host(identity: &Identity) -> Endpoint {
    let config = Config::default().identity(identity.clone());
    Endpoint::bind(config, "127.0.0.1:0").await.unwrap()
}

async fn receive(mocket: &Mocket, count: u32) {
    for number in 0..count {
        assert_eq!(mocket.recv().await.unwrap().payload, number.to_be_bytes()[..]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_from_another_endpoint() {
    let (server, url) = listener().await;
    let identity = new_identity();
    let first = host(&identity).await;
    let near = first.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    let mut events = far.subscribe();

    let mut stream = near.open_stream().await.unwrap();
    stream.write_all(b"begun here, ").await.unwrap();
    for number in 0..2000u32 {
        near.send(number.to_be_bytes().to_vec()).await.unwrap();
        far.send(number.to_be_bytes().to_vec()).await.unwrap();
    }
    // Some messages are fetched and not taken.
    assert_eq!(near.recv().await.unwrap().payload, 0u32.to_be_bytes()[..]);
    let state = near.suspend(SuspendMode::Snapshot).await.unwrap();
    assert!(state.peer_waits().is_some());
    assert_eq!(near.closed().await, CloseReason::Suspended);
    assert!(near.recv().await.is_err() && near.try_send("late").is_err());
    while events.recv().await.unwrap() != Event::PeerSuspended {}
    far.send(2000u32.to_be_bytes().to_vec()).await.unwrap();

    let state = SuspendedMocket::from_bytes(&state.to_bytes()).unwrap();
    let second = host(&identity).await;
    let near = second.resume(&state, None).await.unwrap();
    while !matches!(events.recv().await.unwrap(), Event::PeerResumed { .. }) {}
    for number in 1..=2000u32 {
        assert_eq!(near.recv().await.unwrap().payload, number.to_be_bytes()[..]);
    }
    receive(&far, 2000).await;

    let ids = near.byte_streams();
    let mut stream = near.stream(ids[0]).unwrap();
    stream.write_all(b"ended there").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut whole = String::new();
    far.accept_stream().await.unwrap().read_to_string(&mut whole).await.unwrap();
    assert_eq!(whole, "begun here, ended there");

    let third = host(&identity).await;
    let error = third.resume(&state, None).await.err();
    assert_eq!(error, Some(ResumeError::Closed(CloseReason::AlreadyResumed)));
    drop(stream);
    near.close(0, "").await;
    assert!(matches!(far.closed().await, CloseReason::Peer(_)));
}

async fn deliver(stream: &MessageStream, text: &'static str) {
    let delivery = stream.sender().build().send_tracked(text).await.unwrap();
    assert_eq!(delivery.outcome().await, Outcome::Delivered);
}

#[tokio::test]
async fn message_streams_go_on_with_what_was_unread() {
    let (server, url) = listener().await;
    let identity = new_identity();
    let near = host(&identity).await.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    let options = StreamOptions::default().priority(30);
    let own = near.open_messages(options).await.unwrap();
    own.send("first").await.unwrap();
    let mut far_own = far.accept_messages().await.unwrap();
    let far_theirs = far.open_messages(StreamOptions::default()).await.unwrap();
    deliver(&far_theirs, "first").await;
    let theirs = near.accept_messages().await.unwrap();
    let latest = theirs.options().credit(CreditPolicy::Latest { unread: 1 });
    theirs.set_options(latest).unwrap();
    let dropped = near.open_messages(StreamOptions::default()).await.unwrap();
    dropped.send("not gone yet").await.unwrap();
    let dropped = dropped.id();
    let ids = [theirs.id(), own.id()];
    assert_eq!(near.message_streams(), [&ids[..], &[dropped]].concat());
    deliver(&far_own, "unread, own").await;
    deliver(&far_theirs, "unread, theirs").await;
    let state = near.suspend(SuspendMode::Snapshot).await.unwrap();

    let state = SuspendedMocket::from_bytes(&state.to_bytes()).unwrap();
    let near = host(&identity).await.resume(&state, None).await.unwrap();
    drop(near.message_stream(dropped).unwrap());
    assert_eq!(near.message_streams(), ids, "one was ended, and stream 0 needs no handle");
    assert!(near.message_stream(dropped).is_none() && near.stream(ids[0]).is_none());
    let [mut theirs, mut own] = ids.map(|id| near.message_stream(id).unwrap());
    assert_eq!((own.options(), theirs.options()), (options, latest));
    assert_eq!(own.recv().await.unwrap().payload, "unread, own");
    for text in ["first", "unread, theirs"] {
        assert_eq!(theirs.recv().await.unwrap().payload, text);
    }
    for (near, far) in [(&mut own, &mut far_own), (&mut theirs, &mut { far_theirs })] {
        near.send("there").await.unwrap();
        while far.recv().await.unwrap().payload != "there" {}
        far.send("and back").await.unwrap();
        assert_eq!(near.recv().await.unwrap().payload, "and back");
    }
    // The mocket does not offer a stream that has a handle.
    far.open_messages(options).await.unwrap().send("a new one").await.unwrap();
    assert_eq!(near.accept_messages().await.unwrap().recv().await.unwrap().payload, "a new one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_sent_while_a_session_left_went_with_it_or_was_refused() {
    for mode in [SuspendMode::Flush, SuspendMode::Snapshot] {
        for round in 0..20 {
            let (server, url) = listener().await;
            let identity = new_identity();
            let first = host(&identity).await;
            let near = first.connect(&url).await.unwrap();
            let far = server.accept().await.unwrap();
            let received = tokio::spawn(async move {
                let mut received = 0u32;
                while far.recv().await.unwrap().payload != "last" {
                    received += 1;
                }
                received
            });
            let sent = Arc::new(AtomicU32::new(0));
            let senders: Vec<std::thread::JoinHandle<()>> = (0..4u8)
                .map(|sender| {
                    let (near, sent) = (near.clone(), Arc::clone(&sent));
                    std::thread::spawn(move || {
                        loop {
                            match near.try_send(vec![sender; 20]) {
                                Ok(()) => drop(sent.fetch_add(1, Ordering::Relaxed)),
                                Err(SendError::Closed(_)) => return,
                                Err(_) => std::thread::yield_now(),
                            }
                        }
                    })
                })
                .collect();
            // The session is suspended in the middle of the transfer.
            while sent.load(Ordering::Relaxed) < 1000 {
                tokio::task::yield_now().await;
            }
            let state = near.suspend(mode).await.unwrap();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            let sent = sent.load(Ordering::Relaxed);
            let second = host(&identity).await;
            let back = second.resume(&state, None).await.unwrap();
            back.send("last").await.unwrap();
            assert_eq!(received.await.unwrap(), sent, "{mode:?}, round {round}");
        }
    }
}

#[tokio::test]
async fn flushing_waits_for_what_was_sent() {
    let (server, url) = listener().await;
    let client = host(&new_identity()).await;
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    for number in 0..500u32 {
        near.send(number.to_be_bytes().to_vec()).await.unwrap();
    }
    near.suspend(SuspendMode::Flush).await.unwrap();
    receive(&far, 500).await;
    // The close does not wait for the suspended end to come back.
    assert_eq!(far.close(0, "").await, CloseReason::Local);
}

/// Polls a suspension once and drops it.
async fn begin(suspending: impl Future<Output = Result<SuspendedMocket, SuspendError>>) {
    let mut suspending = std::pin::pin!(suspending);
    let begun = std::future::poll_fn(|cx| Poll::Ready(suspending.as_mut().poll(cx).is_pending()));
    assert!(begun.await, "the peer has not answered yet");
}

#[tokio::test]
async fn what_a_dropped_suspend_began_the_next_one_ends() {
    let (server, url) = listener().await;
    let client = host(&new_identity()).await;
    for waits in [false, true] {
        let near = client.connect(&url).await.unwrap();
        let far = server.accept().await.unwrap();
        near.send("not lost").await.unwrap();
        begin(near.suspend(SuspendMode::Snapshot)).await;
        if waits {
            assert_eq!(near.closed().await, CloseReason::Suspended);
        }
        let state = near.suspend(SuspendMode::Flush).await.unwrap();
        let again = near.suspend(SuspendMode::Snapshot).await;
        assert_eq!(again.err(), Some(SuspendError::Closed(CloseReason::Suspended)), "there is one state");
        let near = client.resume(&state, None).await.unwrap();
        assert_eq!(far.recv().await.unwrap().payload, "not lost");
        far.send("neither").await.unwrap();
        assert_eq!(near.recv().await.unwrap().payload, "neither");
    }
}

#[tokio::test]
async fn an_accepted_session_moves_too_and_both_may_be_away() {
    let (server, url) = listener().await;
    let identity = new_identity();
    let client = host(&identity).await;
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    near.send("to the far end").await.unwrap();
    far.send("to the near end").await.unwrap();
    let (near, far) = tokio::join!(near.suspend(SuspendMode::Snapshot), far.suspend(SuspendMode::Snapshot));
    let (near, far) = (near.unwrap(), far.unwrap());
    let far = server.wait_for_peer(&far).await.unwrap();
    let elsewhere = host(&identity).await;
    let near = elsewhere.resume(&near, None).await.unwrap();
    assert_eq!(far.recv().await.unwrap().payload, "to the far end");
    assert_eq!(near.recv().await.unwrap().payload, "to the near end");
    let far = far.suspend(SuspendMode::Snapshot).await.unwrap();
    let back = server.resume(&far, Some(elsewhere.local_addr().unwrap())).await.unwrap();
    back.send("from one that was accepted").await.unwrap();
    assert_eq!(near.recv().await.unwrap().payload, "from one that was accepted");
}

#[tokio::test]
async fn a_sealed_state_opens_for_its_passphrase_only() {
    let (server, url) = listener().await;
    let client = host(&new_identity()).await;
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    near.send("secret words").await.unwrap();
    let mut state = near.suspend(SuspendMode::Snapshot).await.unwrap();
    assert_eq!(state.app_data(), b"");
    state.set_app_data("where I was");
    let sealed = state.seal("open sesame").unwrap();
    assert_eq!(SuspendedMocket::open(&sealed, "open barley").err(), Some(SealError::DoesNotOpen));
    let mut changed = sealed.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert_eq!(SuspendedMocket::open(&changed, "open sesame").err(), Some(SealError::DoesNotOpen));
    assert_eq!(SuspendedMocket::open(b"", "open sesame").err(), Some(SealError::NotSealed));
    let keyed = state.seal_with_key(&[7; 32]);
    assert_eq!(SuspendedMocket::open_with_key(&keyed, &[8; 32]).err(), Some(SealError::DoesNotOpen));
    assert!(SuspendedMocket::open_with_key(&keyed, &[7; 32]).is_ok());
    let state = SuspendedMocket::open(&sealed, "open sesame").unwrap();
    assert_eq!(state.app_data(), b"where I was");
    let stranger = host(&new_identity()).await;
    let refused = stranger.resume(&state, None).await.err();
    assert_eq!(refused, Some(ResumeError::Refused(whimbrel_proto::ResumeError::Identity)));
    client.resume(&state, None).await.unwrap();
    let next = tokio::time::timeout(Duration::from_secs(30), far.recv()).await.unwrap();
    assert_eq!(next.unwrap().payload, "secret words");
}

#[tokio::test]
async fn a_session_with_a_pre_shared_key_goes_on_under_that_one_only() {
    let psk = Some([7; 32]);
    let listen = Config::listen_as(new_identity()).psk(psk.map(Into::into));
    let server = Endpoint::bind(listen, "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let identity = new_identity();
    let host = |own: Option<[u8; 32]>| {
        let mut config = Config::default().identity(identity.clone()).psk(own.map(Into::into));
        if own != psk {
            // This client gets no answer.
            config.transport.handshake_timeout = Duration::from_millis(400);
        }
        async { Endpoint::bind(config, "127.0.0.1:0").await.unwrap() }
    };
    let near = host(psk).await.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    let mut events = far.subscribe();
    near.send("from the first").await.unwrap();
    let state = near.suspend(SuspendMode::Snapshot).await.unwrap();
    while events.recv().await.unwrap() != Event::PeerSuspended {}
    far.send("while it was away").await.unwrap();
    for wrong in [None, Some([8; 32])] {
        let refused = host(wrong).await.resume(&state, None).await.err();
        assert_eq!(refused, Some(ResumeError::Closed(CloseReason::HandshakeTimedOut)), "{wrong:?}");
    }
    assert_eq!(events.try_recv(), Ok(None), "nobody has come back");
    let near = host(psk).await.resume(&state, None).await.unwrap();
    while !matches!(events.recv().await.unwrap(), Event::PeerResumed { .. }) {}
    assert_eq!(near.recv().await.unwrap().payload, "while it was away");
    assert_eq!(far.recv().await.unwrap().payload, "from the first");
}
