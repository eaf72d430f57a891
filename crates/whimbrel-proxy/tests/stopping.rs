//! A proxy that stops while a flow runs: it takes no more programs and no more peers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use whimbrel::{Config, Endpoint, Identity, ListenConfig, PublicKey, new_identity};
use whimbrel_proxy::protocol::PROTOCOL;
use whimbrel_proxy::{Admission, News, Proxy, Settings};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn settings(text: &str) -> Settings {
    whimbrel_service::parse_config("x.toml", text).unwrap()
}

async fn dialling(identity: Identity) -> Endpoint {
    let config = Config::default().protocol(PROTOCOL.into()).identity(identity);
    Endpoint::bind(config, "127.0.0.1:0").await.unwrap()
}

/// The news that people hear of a proxy.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn tell(&self) -> impl Fn(News) + Clone + Send + Sync + 'static {
        let all = Arc::clone(&self.0);
        move |news| all.lock().unwrap().push(news.to_string())
    }

    async fn until(&self, part: &str) -> String {
        let waiting = async {
            loop {
                if let Some(line) = self.0.lock().unwrap().iter().find(|line| line.contains(part)) {
                    return line.clone();
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{part}: {:?}", self.0.lock().unwrap()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_a_proxy_that_stops_takes_no_more_programs_and_peers() {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = server.local_addr().unwrap();
    let (one, other) = (new_identity(), new_identity());
    let text = format!(
        "[listen]\n[limits]\ndrain = '1min'\n[in]\nforward = ['0=a.b:1']\n\
         [[peer]]\nname = 'one'\nkey = '{}'\nmay_open = ['{target}']\n[[peer]]\nname = 'other'\nkey = '{}'",
        one.public(),
        other.public()
    );
    let (settings_of_far, heard) = (settings(&text), Heard::default());
    // As `whimbrel proxy run` does it.
    let admission = Admission::new(settings_of_far.keys());
    let (asked, tell) = (admission.clone(), heard.tell());
    let admit = move |key: &PublicKey, from: SocketAddr| asked.ask(key, Some(from), &tell);
    let listen = ListenConfig::default().admit(Some(Arc::new(admit)));
    let config = Config::listen_as(new_identity()).protocol(PROTOCOL.into()).listen(Some(listen));
    let endpoint = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let mut far =
        Proxy::prepare(&settings_of_far, &endpoint, None, heard.tell(), &Default::default()).await.unwrap();
    far.set_admission(admission);
    far.go_on(Default::default());
    let forward: SocketAddr = heard.until("a forward on ").await.rsplit(' ').next().unwrap().parse().unwrap();
    let url = format!("whimbrel://{}@{}", endpoint.public_key(), endpoint.local_addr().unwrap());

    // A stranger is told of, and so is a peer.
    let stranger = new_identity();
    let key = stranger.public();
    let stranger = dialling(stranger).await;
    let knocking = tokio::spawn({
        let url = url.clone();
        async move { stranger.connect(&url).await.map(drop) }
    });
    let line = heard.until("refused ").await;
    assert!(line.contains(&format!("refused {key} at 127.0.0.1:")) && line.contains("add one"), "{line}");
    knocking.abort();
    let near = dialling(one).await;
    let text = format!("[in]\nforward = ['0={target}']\n[[peer]]\nurl = '{url}'");
    let near_heard = Heard::default();
    let near_proxy = Proxy::start(&settings(&text), &near, None, near_heard.tell()).await.unwrap();
    heard.until("one has connected").await;
    let near_forward = near_heard.until("a forward on ").await;
    let mut program = TcpStream::connect(near_forward.rsplit(' ').next().unwrap()).await.unwrap();
    let (mut served, _) = timeout(PATIENCE, server.accept()).await.unwrap().unwrap();

    let refused = endpoint.stats().refused;
    let stopping = async {
        let left = far.drain(PATIENCE).await;
        assert_eq!(left, 0, "the flow has ended by itself");
    };
    let looking = async {
        // A port that nobody serves any more refuses.
        loop {
            match TcpStream::connect(forward).await {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
                _ => sleep(Duration::from_millis(5)).await,
            }
        }
        // A peer that comes now is not let in and then sent away: it hears nothing.
        let late = dialling(other).await;
        let coming = tokio::spawn(async move { late.connect(&url).await.map(drop) });
        while endpoint.stats().refused == refused {
            assert!(!coming.is_finished());
            sleep(Duration::from_millis(5)).await;
        }
        assert!(!coming.is_finished());
        coming.abort();
        // What runs goes on to its end.
        program.write_all(b"more").await.unwrap();
        let mut more = [0; 4];
        served.read_exact(&mut more).await.unwrap();
        assert_eq!(&more, b"more");
        drop((program, served));
    };
    timeout(PATIENCE, async { tokio::join!(stopping, looking) }).await.unwrap();
    drop(near_proxy);
    near.close(0, "done", PATIENCE).await;
    heard.until("one is no longer connected: ").await;
}
