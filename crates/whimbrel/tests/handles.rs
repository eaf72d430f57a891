//! Handles as programs and bindings use them: polled with any runtime or with none, compared, and many at once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use whimbrel::{
    BindError, CloseReason, Config, Endpoint, Event, EventsError, ExportError, ListenConfig, Mocket,
    MocketSet, SendError, Url, new_identity,
};

async fn server() -> (Endpoint, String) {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    (server, url)
}

async fn client() -> Endpoint {
    Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap()
}

async fn pair() -> (Endpoint, Endpoint, Mocket, Mocket) {
    let ((server, url), client) = (server().await, client().await);
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    (server, client, near, far)
}

/// A waker for a program without tokio, which waits on a channel.
struct Tell(mpsc::Sender<()>);

impl Wake for Tell {
    fn wake(self: Arc<Self>) {
        self.0.send(()).ok();
    }
}

/// Polls on a thread without a runtime, and sleeps in between.
fn block_on_thread<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    const LONGEST: Duration = Duration::from_secs(10);
    let (tell, told) = mpsc::channel();
    let waker = Arc::new(Tell(tell)).into();
    let mut cx = Context::from_waker(&waker);
    loop {
        match poll(&mut cx) {
            Poll::Ready(ready) => return ready,
            Poll::Pending => told.recv_timeout(LONGEST).expect("nobody told that there is something to do"),
        }
    }
}

#[test]
fn binding_outside_of_a_runtime_is_an_error() {
    let bind = std::pin::pin!(Endpoint::bind(Config::default(), "127.0.0.1:0"));
    let polled = bind.poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Err(BindError::NoRuntime))), "{polled:?}");
}

#[tokio::test]
async fn an_endpoint_that_does_not_listen_accepts_nothing() {
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let next = tokio::time::timeout(Duration::from_secs(60), client.accept());
    assert_eq!(next.await.expect("it ends at once"), None);
    assert_eq!(client.poll_accept(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
    assert_eq!(client.try_accept(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_are_polled_outside_of_the_runtime() {
    let ((server, url), client) = (server().await, client().await);
    let accepting = std::thread::spawn({
        let server = server.clone();
        move || block_on_thread(|cx| server.poll_accept(cx)).unwrap()
    });
    let near = client.connect(&url).await.unwrap();
    let far = accepting.join().unwrap();
    let receiving = std::thread::spawn({
        let far = far.clone();
        move || {
            let message = block_on_thread(|cx| far.poll_recv(cx)).unwrap();
            let stream = block_on_thread(|cx| far.poll_accept_stream(cx)).unwrap();
            // Messages of a stream that is not accepted yet are received from the mocket.
            far.try_send("now the other").unwrap();
            let mut messages = block_on_thread(|cx| far.poll_accept_messages(cx)).unwrap();
            let first = block_on_thread(|cx| messages.poll_recv(cx)).unwrap();
            let closed = block_on_thread(|cx| far.poll_recv(cx)).unwrap_err();
            (message.payload, stream.opening().clone(), first.payload, closed)
        }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    near.send("a message").await.unwrap();
    let opened = std::future::poll_fn(|cx| near.poll_open_stream(cx, Some(b"an opening"))).await;
    opened.unwrap().shutdown().await.unwrap();
    assert_eq!(near.recv().await.unwrap().payload, "now the other");
    let opened = std::future::poll_fn(|cx| near.poll_open_messages(cx, Default::default())).await;
    opened.unwrap().send("on a stream").await.unwrap();
    let reason = near.close(7, "done").await;
    assert_eq!(reason, CloseReason::Local);
    let (message, opening, first, closed) = receiving.join().unwrap();
    assert_eq!(
        (&message[..], &opening[..], &first[..]),
        (&b"a message"[..], &b"an opening"[..], &b"on a stream"[..])
    );
    assert!(matches!(closed.0, CloseReason::Peer(reason) if reason.code == 7));
}

#[tokio::test]
async fn what_is_there_is_taken_at_once() {
    let (server, _client, near, far) = pair().await;
    assert!(server.try_accept().is_none() && far.try_accept_stream().is_none());
    assert!(far.try_accept_messages().is_none());
    let mut stream = near.open_stream_with("x").await.unwrap();
    stream.write_all(b"y").await.unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let accepted = loop {
        if let Some(accepted) = far.try_accept_stream() {
            break accepted;
        }
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(accepted.opening(), "x");
}

#[tokio::test]
async fn several_tasks_accept() {
    let ((server, url), client) = (server().await, client().await);
    let accept = |server: Endpoint| tokio::spawn(async move { server.accept().await.is_some() });
    let tasks = [accept(server.clone()), accept(server.clone()), accept(server.clone())];
    let mut connected = Vec::new();
    for _ in 0..tasks.len() {
        connected.push(client.connect(&url).await.unwrap());
    }
    for task in tasks {
        assert!(tokio::time::timeout(Duration::from_secs(10), task).await.unwrap().unwrap());
    }
}

#[tokio::test]
#[allow(clippy::mutable_key_type, reason = "what changes in it is not what it is told by")]
async fn mockets_are_equal_by_session() {
    let (server, client, near, far) = pair().await;
    let all: HashSet<Mocket> = [near.clone(), near.clone(), far.clone()].into();
    assert!(all.len() == 2 && near == near.clone() && near != far);
    let key = server.public_key().to_string();
    assert!(format!("{near:?}").contains(&key) && format!("{server:?}").contains(&key));
    assert!(!format!("{:?} {:?}", client, near.sender().build()).is_empty());
}

#[tokio::test]
async fn one_task_reads_many_mockets_in_turns() {
    const MOCKETS: usize = 50;
    const EACH: usize = 20;
    let ((server, url), client) = (server().await, client().await);
    let (mut near, mut set) = (Vec::new(), MocketSet::new());
    assert!(set.recv().await.is_none(), "it is empty");
    for number in 0..MOCKETS {
        near.push(client.connect(&url).await.unwrap());
        assert!(set.insert(number, server.accept().await.unwrap()).is_none());
    }
    for mocket in &near {
        for number in 0..EACH {
            mocket.send(vec![number as u8]).await.unwrap();
        }
    }
    let mut got = BTreeMap::<usize, usize>::new();
    for _ in 0..MOCKETS * EACH {
        let (from, message) = set.recv().await.unwrap();
        let count = got.entry(from).or_default();
        assert_eq!(message.unwrap().payload, [*count as u8][..], "each in its order");
        *count += 1;
    }
    assert!(got.len() == MOCKETS && got.values().all(|count| *count == EACH));
    // Silent mockets wake nobody. One that sends is received from, and one that closes is removed.
    let quiet = tokio::time::timeout(Duration::from_millis(100), set.recv()).await;
    assert!(quiet.is_err());
    near[17].send("again").await.unwrap();
    assert!(matches!(set.recv().await, Some((17, Ok(_)))));
    near[3].close(0, "").await;
    assert!(matches!(set.recv().await, Some((3, Err(_)))) && set.len() == MOCKETS - 1);
    assert!(set.remove(&4).is_some() && set.get(&4).is_none() && set.iter().count() == MOCKETS - 2);
}

/// A mocket that always has messages does not keep the others waiting.
#[tokio::test]
async fn a_busy_mocket_leaves_the_others_their_turns() {
    let ((server, url), client) = (server().await, client().await);
    let mut set = MocketSet::new();
    let mut near = Vec::new();
    for number in 0..2 {
        near.push(client.connect(&url).await.unwrap());
        set.insert(number, server.accept().await.unwrap());
    }
    for _ in 0..1000 {
        near[0].send("busy").await.unwrap();
    }
    near[1].send("once").await.unwrap();
    while near.iter().any(|near| near.stats().session.queue_bytes > 0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut before = 0;
    while set.recv().await.unwrap().0 == 0 {
        before += 1;
    }
    assert!(before < 300, "{before} messages of the other came first");
}

#[tokio::test]
async fn endpoints_are_bound_to_what_one_has() {
    let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let socket = std::net::UdpSocket::bind(address).unwrap();
    let bound = socket.local_addr().unwrap();
    let server = Endpoint::bind(Config::listen_as(new_identity()), socket).await.unwrap();
    assert_eq!(server.local_addr().unwrap(), bound);
    let client = Endpoint::bind(Config::default(), address).await.unwrap();
    let url: Url = format!("whimbrel://{}@{bound}", server.public_key()).parse().unwrap();
    let near = client.connect(&url).await.unwrap();
    near.send("by what was taken apart").await.unwrap();
    assert_eq!(server.accept().await.unwrap().recv().await.unwrap().payload, "by what was taken apart");
    assert!(client.connect(url.to_string()).await.is_ok());
}

#[tokio::test]
async fn an_endpoint_closes_politely() {
    let (server, client, near, far) = pair().await;
    near.send("the last word").await.unwrap();
    assert_eq!(client.close(9, "over", Duration::from_secs(10)).await, 0, "all ended in time");
    assert_eq!(far.recv().await.unwrap().payload, "the last word");
    assert!(matches!(far.closed().await, CloseReason::Peer(reason) if reason.code == 9));
    // A server that is closing refuses connections.
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    assert_eq!(server.close(0, "", Duration::from_secs(10)).await, 0);
    let late = self::client().await;
    let mocket = late.begin_connect(&url).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(20), mocket.closed()).await.is_ok());
    assert!(server.try_accept().is_none() && server.accept().await.is_none(), "who waits for others is told");
    assert!(matches!(client.connect(&url).await, Err(whimbrel::ConnectError::EndpointClosed)));
}

#[tokio::test]
async fn sending_to_a_peer_that_closes_says_why_it_closes() {
    let (_server, _client, near, far) = pair().await;
    let mut events = near.subscribe();
    // Nobody reads this much, so the close cannot complete.
    for _ in 0..100 {
        near.send(vec![0; 10_000]).await.unwrap();
    }
    far.begin_close(7, "bye");
    while !matches!(events.recv().await.unwrap(), Event::PeerClosing(_)) {}
    let late = near.send("too late").await.unwrap_err();
    assert!(matches!(late, SendError::Closed(CloseReason::Peer(reason)) if reason.code == 7));
}

/// The set once held its members' wakers, and they held the set.
#[tokio::test]
async fn regression_a_set_that_is_dropped_leaves_nothing_behind() {
    let held = Arc::new(());
    #[derive(Clone)]
    struct Key(#[allow(dead_code, reason = "it is counted")] Arc<()>);
    impl PartialEq for Key {
        fn eq(&self, _: &Self) -> bool {
            true
        }
    }
    impl Eq for Key {}
    impl PartialOrd for Key {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Key {
        fn cmp(&self, _: &Self) -> std::cmp::Ordering {
            std::cmp::Ordering::Equal
        }
    }
    let (_server, _client, near, far) = pair().await;
    for polled in [false, true] {
        let mut set = MocketSet::new();
        set.insert(Key(Arc::clone(&held)), far.clone());
        if polled {
            assert!(tokio::time::timeout(Duration::from_millis(20), set.recv()).await.is_err());
        }
        drop(set);
    }
    near.close(0, "").await;
    far.closed().await;
    assert_eq!(Arc::strong_count(&held), 1, "keys of sets that are gone");
}

#[tokio::test]
async fn patience_with_a_peer_that_does_not_read_ends() {
    let (_server, client, near, far) = pair().await;
    let stalled = tokio::spawn(async move { while near.send(vec![0; 1 << 20]).await.is_ok() {} });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begin = Instant::now();
    assert_eq!(client.close(0, "", Duration::from_millis(300)).await, 1, "what it waited for is given up");
    assert!(begin.elapsed() < Duration::from_secs(5));
    stalled.await.unwrap();
    drop(far);
}

#[tokio::test]
async fn both_ends_know_the_protocol_and_export_the_same() {
    let listen = ListenConfig::default().protocols(vec!["chat/1".into()]);
    let config = Config::default().identity(new_identity()).listen(Some(listen));
    let server = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let client = Endpoint::bind(Config::default().protocol("chat/1".into()), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let near = client.connect(&url).await.unwrap();
    near.send("proof").await.unwrap();
    let far = server.accept().await.unwrap();
    far.recv().await.unwrap();
    assert_eq!((near.protocol(), far.protocol()), ("chat/1".into(), "chat/1".into()));
    let export = |mocket: &Mocket, label: &str, context: &str| {
        let mut out = [0; 48];
        mocket.export_keying_material(&mut out, label.as_bytes(), context.as_bytes()).unwrap();
        out
    };
    assert_eq!(export(&near, "token", "a"), export(&far, "token", "a"));
    let others = [export(&near, "token", "b"), export(&near, "tokena", ""), export(&near, "other", "a")];
    assert!(!others.contains(&export(&near, "token", "a")));
    let another = client.connect(&url).await.unwrap();
    assert_ne!(export(&another, "token", "a"), export(&near, "token", "a"), "each connection has its own");
    let too_long = near.export_keying_material(&mut vec![0; 8161], b"token", b"");
    assert_eq!(too_long, Err(ExportError::TooLong));
    let begun = client.begin_connect(&url).await.unwrap();
    assert_eq!(begun.export_keying_material(&mut [0; 1], b"", b""), Err(ExportError::NotProven));
}

#[tokio::test]
async fn who_subscribes_late_hears_the_end() {
    let (_server, _client, near, far) = pair().await;
    let mut early = far.subscribe();
    near.close(4, "bye").await;
    far.closed().await;
    let mut late = far.subscribe();
    assert!(matches!(late.recv().await, Ok(Event::Closed(CloseReason::Peer(reason))) if reason.code == 4));
    assert_eq!(late.recv().await, Err(EventsError::Closed));
    let mut last = None;
    while let Ok(event) = early.recv().await {
        last = Some(event);
    }
    assert!(matches!(last, Some(Event::Closed(_))));
}

/// A payload sent to many mockets is kept in memory only once.
#[tokio::test]
async fn a_payload_for_many_is_not_copied_for_each() {
    const MOCKETS: usize = 20;
    let ((server, url), client) = (server().await, client().await);
    let mut ends = Vec::new();
    for _ in 0..MOCKETS {
        ends.push((client.connect(&url).await.unwrap(), server.accept().await.unwrap()));
    }
    // The payload uses the application's own memory, which is released once the last session has released it.
    struct Payload {
        bytes: Vec<u8>,
        _held: Arc<()>,
    }
    impl AsRef<[u8]> for Payload {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    let held = Arc::new(());
    let payload = bytes::Bytes::from_owner(Payload { bytes: vec![7; 100_000], _held: Arc::clone(&held) });
    for (near, _) in &ends {
        near.send(payload.clone()).await.unwrap();
    }
    drop(payload);
    for (_, far) in &ends {
        assert_eq!(far.recv().await.unwrap().payload.len(), 100_000);
    }
    let end = Instant::now() + Duration::from_secs(10);
    while Arc::strong_count(&held) > 1 {
        assert!(Instant::now() < end, "somebody holds it though everybody has it");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[cfg(feature = "serde")]
#[test]
fn settings_are_read_from_files() {
    use whimbrel::{Congestion, CostPolicy, LocalPath, Paths, PublicKey, Repeats, Scheduling};
    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    struct File {
        congestion: Congestion,
        repeats: Repeats,
        cost: CostPolicy,
        scheduler: Scheduling,
        path: LocalPath,
        paths: Paths,
        peer: Url,
        key: PublicKey,
    }
    let key = new_identity().public();
    let text = format!(
        r#"{{"congestion":"fixed:2mbit","repeats":"auto","cost":"never-above=3","scheduler":"redundant",
        "path":"10.0.0.7,cost=2,standby","paths":"192.0.2.7 2001:db8::7,prefer","peer":"whimbrel://{key}@h:1","key":"{key}"}}"#
    );
    let file: File = serde_json::from_str(&text).unwrap();
    assert_eq!(file.congestion, Congestion::Fixed { bytes_per_s: 250_000 });
    let again: File = serde_json::from_str(&serde_json::to_string(&file).unwrap()).unwrap();
    assert_eq!(again, file);
    let wrong = serde_json::from_str::<File>(&text.replace("redundant", "fastest")).unwrap_err().to_string();
    assert!(wrong.contains("primary, aggregate or redundant"), "{wrong}");
}
