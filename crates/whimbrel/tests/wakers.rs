//! A waker is foreign code, so none is called under the mocket's lock: it may call the mocket.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use whimbrel::{Config, Endpoint, Mocket, new_identity};

/// A waker that calls the mocket at once, and tells then. Under the lock that would hang for ever.
struct Calls(Mocket, mpsc::Sender<()>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.stats();
        self.1.send(()).ok();
    }
}

fn waker(mocket: &Mocket) -> (Waker, mpsc::Receiver<()>) {
    let (tell, told) = mpsc::channel();
    (Arc::new(Calls(mocket.clone(), tell)).into(), told)
}

/// Waits on a thread of its own, so that the runtime goes on.
async fn was_told(told: mpsc::Receiver<()>, what: &str) {
    let told = tokio::task::spawn_blocking(move || told.recv_timeout(Duration::from_secs(10)));
    assert!(told.await.unwrap().is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waker_may_call_the_mocket() {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();

    let (messages, of_message) = waker(&far);
    assert!(far.poll_recv(&mut Context::from_waker(&messages)).is_pending());
    near.send("x").await.unwrap();
    was_told(of_message, "of a message").await;

    let (streams, of_stream) = waker(&far);
    assert!(far.poll_accept_stream(&mut Context::from_waker(&streams)).is_pending());
    let mut out = near.open_stream_with("opening").await.unwrap();
    out.flush().await.unwrap();
    was_told(of_stream, "of a stream").await;

    // Any event of the session wakes those who wait for streams, so the stream may still be on its way.
    let mut into = far.accept_stream().await.unwrap();
    let (bytes, of_bytes) = waker(&far);
    let (mut memory, mut cx) = ([0; 8], Context::from_waker(&bytes));
    assert!(Pin::new(&mut into).poll_read(&mut cx, &mut ReadBuf::new(&mut memory)).is_pending());
    out.write_all(b"bytes").await.unwrap();
    was_told(of_bytes, "of bytes").await;

    let delivery = near.sender().build().send_tracked("y").await.unwrap();
    let (outcome, of_outcome) = waker(&near);
    let mut delivery = std::pin::pin!(delivery.outcome());
    if delivery.as_mut().poll(&mut Context::from_waker(&outcome)).is_pending() {
        was_told(of_outcome, "of an outcome").await;
    }

    let mut events = far.subscribe();
    let (event, of_event) = waker(&far);
    assert!(events.poll_recv(&mut Context::from_waker(&event)).is_pending());
    let (end, of_end) = waker(&far);
    while far.poll_recv(&mut Context::from_waker(&end)).is_ready() {}
    near.close(0, "").await;
    was_told(of_event, "of an event").await;
    was_told(of_end, "of the end").await;
}
