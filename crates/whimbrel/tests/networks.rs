//! Two hosts joined by two cables, made of network namespaces: real links that come and go. Needs root; skipped
//! otherwise.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(target_os = "linux")]

use std::net::IpAddr;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use whimbrel::{Config, Endpoint, Event, Events, Mocket, PathState, PathStats, Paths, new_identity};

use whimbrel_testing::skipped;

/// A report from the listening host.
enum Told {
    /// Its network namespace. None: the process may not create one.
    Namespace(Option<String>),
    Listening(String),
}

#[allow(unsafe_code, reason = "no safe crate of ours changes namespaces")]
fn leave_for_a_new_namespace() -> Option<String> {
    // SAFETY: this moves only the current thread into an empty network.
    let left = unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 };
    // SAFETY: this only returns a number.
    let thread = unsafe { libc::gettid() };
    left.then(|| format!("/proc/{}/task/{thread}/ns/net", std::process::id()))
}

fn run(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "{program} {arguments}");
}

/// The cables, as seen from the connecting host.
struct Cables {
    far: String,
}

impl Cables {
    fn here(&self, arguments: &str) {
        run("ip", arguments);
    }

    fn there(&self, arguments: &str) {
        run("nsenter", &format!("--net={} ip {arguments}", self.far));
    }

    /// Lays cable `number`, with 10.NUMBER.0.1 at this end and 10.NUMBER.0.2 at the other.
    fn lay(&self, number: u8) {
        self.lay_with(number, [1, 2].map(|end| format!("10.{number}.0.{end}/24")));
    }

    /// Lays cable `number` for IPv6 only, with fd0NUMBER::1 at this end and fd0NUMBER::2 at the other.
    fn lay_for_ipv6(&self, number: u8) {
        // No other host can have the same address, so duplicate address detection is not needed.
        self.lay_with(number, [1, 2].map(|end| format!("fd0{number}::{end}/64 nodad")));
    }

    /// Lays cable `number`, with these addresses at this end and at the other.
    fn lay_with(&self, number: u8, [near, far]: [String; 2]) {
        self.here(&format!("link add near{number} type veth peer name far{number}"));
        self.here(&format!("link set far{number} netns {}", self.far));
        self.here(&format!("address add dev near{number} {near}"));
        self.there(&format!("address add dev far{number} {far}"));
        self.here(&format!("link set near{number} up"));
        self.there(&format!("link set far{number} up"));
    }

    /// Waits until the kernel has noticed that both ends are up, which it does behind the scenes.
    fn wait_for_carrier(&self, number: u8) {
        let end = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            let shown = Command::new("ip").args(["link", "show", &format!("near{number}")]).output().unwrap();
            if String::from_utf8_lossy(&shown.stdout).contains("state UP") {
                return;
            }
            assert!(std::time::Instant::now() < end, "cable {number} has no carrier");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn pull(&self, number: u8) {
        self.here(&format!("link set near{number} down"));
    }

    fn plug(&self, number: u8) {
        self.here(&format!("link set near{number} up"));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs `test` on one host, with a listener on the other that accepts one session. All messages that the test says it
/// sent must arrive there, in order and once.
fn between_hosts<F: Future<Output = u64>>(test: impl FnOnce(Cables, Load) -> F + Send) {
    with_paths(Paths::Auto, test);
}

/// Like [`between_hosts`], with a choice of networks for the connecting host.
fn with_paths<F: Future<Output = u64>>(paths: Paths, test: impl FnOnce(Cables, Load) -> F + Send) {
    let (tell, told) = channel();
    let (cabled, wait) = channel();
    // Reports that the test failed. Otherwise the listener would wait for the session to go on.
    let (connecting, failed) = oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let listener = scope.spawn(move || listen(&tell, &wait, failed));
        let client = scope.spawn(move || {
            let Ok(Told::Namespace(Some(far))) = told.recv() else {
                return None;
            };
            leave_for_a_new_namespace().unwrap();
            let cables = Cables { far };
            cables.lay(1);
            cables.wait_for_carrier(1);
            cabled.send(()).unwrap();
            let Ok(Told::Listening(url)) = told.recv() else { panic!("nobody listens") };
            let sent = runtime().block_on(async {
                let config = Config::default().paths(paths);
                let endpoint = Endpoint::bind(config, "[::]:0").await.unwrap();
                let mocket = endpoint.connect(&url).await.unwrap();
                let sent = test(cables, Load { mocket: mocket.clone(), sent: 0 }).await;
                timeout(Duration::from_secs(20), mocket.close(0, "done")).await.unwrap();
                timeout(Duration::from_secs(20), endpoint.wait_idle()).await.unwrap();
                sent
            });
            connecting.send(()).ok();
            Some(sent)
        });
        let sent = client.join().unwrap();
        let came = listener.join().unwrap();
        if came.is_none() {
            skipped("only root gets networks of its own");
        }
        assert_eq!(came, sent, "all of them");
    });
}

fn listen(tell: &Sender<Told>, cabled: &Receiver<()>, failed: oneshot::Receiver<()>) -> Option<u64> {
    let namespace = leave_for_a_new_namespace();
    let skipped = namespace.is_none();
    tell.send(Told::Namespace(namespace)).unwrap();
    if skipped {
        return None;
    }
    cabled.recv().unwrap();
    runtime().block_on(async {
        let endpoint = Endpoint::bind(Config::listen_as(new_identity()), "[::]:4433").await.unwrap();
        tell.send(Told::Listening(format!("whimbrel://{}@10.1.0.2:4433", endpoint.public_key()))).unwrap();
        let session = async {
            let mocket = endpoint.accept().await.unwrap();
            take(&mocket).await
        };
        let came = tokio::select! {
            came = session => came,
            Err(_) = failed => panic!("the other end has failed"),
        };
        timeout(Duration::from_secs(20), endpoint.wait_idle()).await.ok();
        Some(came)
    })
}

/// Receives all messages and returns how many there were.
async fn take(mocket: &Mocket) -> u64 {
    let mut came: u64 = 0;
    while let Ok(message) = mocket.recv().await {
        assert_eq!(message.payload[..8], came.to_be_bytes(), "in order, none twice, none missing");
        came += 1;
    }
    came
}

fn is_from(path: &PathStats, local: &str) -> bool {
    path.local.is_some_and(|ip| ip.to_string() == local)
}

/// A load of numbered messages: a kilobyte every two milliseconds.
struct Load {
    mocket: Mocket,
    sent: u64,
}

impl Load {
    async fn send_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let mut pace = interval(Duration::from_millis(2));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while Instant::now() < end {
            pace.tick().await;
            let mut payload = vec![7; 1000];
            payload[..8].copy_from_slice(&self.sent.to_be_bytes());
            self.mocket.send(payload).await.unwrap();
            self.sent += 1;
        }
    }

    /// Sends a last message, which arrives after all others. Returns the number of messages including it.
    async fn finish(self) -> u64 {
        self.mocket.send(self.sent.to_be_bytes().to_vec()).await.unwrap();
        self.sent + 1
    }

    /// Goes on sending until a path between two addresses works.
    async fn until_path(&mut self, local: &str, remote: &str) {
        let wanted = |path: &PathStats| {
            is_from(path, local) && path.remote.to_string() == remote && path.state == PathState::Active
        };
        self.until(&format!("{local} to {remote}"), |paths| paths.iter().any(wanted)).await;
    }

    /// Goes on sending until all paths are from this address.
    async fn until_only(&mut self, local: &str) {
        self.until(&format!("only {local}"), |paths| paths.iter().all(|path| is_from(path, local))).await;
    }

    /// Goes on sending until the paths are as wanted.
    async fn until(&mut self, wanted: &str, are: impl Fn(&[PathStats]) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let paths = self.mocket.paths();
            if are(&paths) {
                return;
            }
            assert!(Instant::now() < end, "{wanted} wanted: {paths:?}");
            self.send_for(Duration::from_millis(20)).await;
        }
    }
}

/// Returns the events since the last call.
fn told(events: &mut Events) -> Vec<Event> {
    std::iter::from_fn(|| events.try_recv().ok().flatten()).collect()
}

/// Asserts that each of these texts begins one of the events.
fn assert_told(events: &mut Events, wanted: &[&str]) {
    let told = told(events);
    for wanted in wanted {
        assert!(told.iter().any(|event| format!("{event:?}").starts_with(wanted)), "{wanted}: {told:?}");
    }
}

#[test]
fn a_network_that_comes_is_used_and_one_that_goes_is_not_missed() {
    between_hosts(|cables, mut load| async move {
        load.send_for(Duration::from_millis(200)).await;
        assert_eq!(load.mocket.paths().len(), 1);
        let mut events = load.mocket.subscribe();
        cables.lay(2);
        load.until_path("10.2.0.1", "10.2.0.2:4433").await;
        cables.pull(1);
        load.send_for(Duration::from_secs(1)).await;
        load.until_only("10.2.0.1").await;
        cables.plug(1);
        load.until_path("10.1.0.1", "10.1.0.2:4433").await;
        let wanted =
            ["LocalAddressAdded(10.2.0.1", "PeerAddressAdded(10.2.0.2:4433)", "PathUp(", "PathClosed("];
        assert_told(&mut events, &wanted);
        load.finish().await
    });
}

#[test]
fn a_network_that_was_named_is_used_whenever_it_is_there() {
    let named = ["10.1.0.1", "10.2.0.1"].map(|ip| ip.parse::<IpAddr>().unwrap().into());
    with_paths(Paths::Only(named.to_vec()), |cables, mut load| async move {
        load.send_for(Duration::from_millis(200)).await;
        assert_eq!(load.mocket.paths().len(), 1);
        // This network is not among the chosen ones.
        cables.lay(3);
        cables.lay(2);
        load.until_path("10.2.0.1", "10.2.0.2:4433").await;
        cables.pull(2);
        load.until_only("10.1.0.1").await;
        cables.plug(2);
        load.until_path("10.2.0.1", "10.2.0.2:4433").await;
        assert!(!load.mocket.paths().iter().any(|path| is_from(path, "10.3.0.1")));
        load.finish().await
    });
}

#[test]
fn ipv6_is_used_beside_ipv4_and_without_it() {
    between_hosts(|cables, mut load| async move {
        load.send_for(Duration::from_millis(200)).await;
        let mut events = load.mocket.subscribe();
        cables.lay_for_ipv6(2);
        load.until_path("fd02::1", "[fd02::2]:4433").await;
        load.until_path("10.1.0.1", "10.1.0.2:4433").await;
        cables.pull(1);
        load.until_only("fd02::1").await;
        load.send_for(Duration::from_millis(500)).await;
        cables.plug(1);
        load.until_path("10.1.0.1", "10.1.0.2:4433").await;
        let wanted = [
            "LocalAddressAdded([fd02::1]",
            "PeerAddressAdded([fd02::2]:4433)",
            "LocalAddressRemoved(10.1.0.1",
        ];
        assert_told(&mut events, &wanted);
        load.finish().await
    });
}

#[test]
fn a_listener_of_two_addresses_is_reached_at_both_from_one() {
    between_hosts(|cables, mut load| async move {
        load.send_for(Duration::from_millis(200)).await;
        let mut events = load.mocket.subscribe();
        cables.here("route add 10.8.0.0/24 dev near1");
        // This route stays when the address that the cable was laid with is removed.
        cables.there("route add 10.1.0.1 dev far1");
        cables.there("address add 10.8.0.2/24 dev far1");
        load.until_path("10.1.0.1", "10.8.0.2:4433").await;
        load.until_path("10.1.0.1", "10.1.0.2:4433").await;
        cables.there("address delete 10.1.0.2/24 dev far1");
        let second =
            |paths: &[PathStats]| paths.iter().all(|path| path.remote.to_string() == "10.8.0.2:4433");
        load.until("only 10.8.0.2", second).await;
        load.send_for(Duration::from_millis(500)).await;
        assert_told(&mut events, &["PeerAddressAdded(10.8.0.2:4433)", "PeerAddressRemoved(10.1.0.2:4433)"]);
        load.finish().await
    });
}

#[test]
fn a_session_walks_from_network_to_network() {
    between_hosts(|cables, mut load| async move {
        cables.lay(2);
        for round in 0..4 {
            let (good, bad) = ((round + 1) % 2 + 1, round % 2 + 1);
            for number in [good, bad] {
                load.until_path(&format!("10.{number}.0.1"), &format!("10.{number}.0.2:4433")).await;
            }
            // This host sees no failure: only the other end's cable loses its carrier for a while.
            cables.there(&format!("link set far{bad} down"));
            load.send_for(Duration::from_millis(500)).await;
            cables.there(&format!("link set far{bad} up"));
        }
        load.finish().await
    });
}

#[test]
fn a_network_that_leads_nowhere_is_tried_and_left_alone() {
    between_hosts(|cables, mut load| async move {
        let mut events = load.mocket.subscribe();
        cables.here("link add nowhere type veth peer name end");
        cables.here("address add 10.9.0.1/24 dev nowhere");
        cables.here("link set end up");
        cables.here("link set nowhere up");
        load.send_for(Duration::from_secs(4)).await;
        let told = told(&mut events);
        let tried = told.iter().filter(|event| matches!(event, Event::PathClosed(_))).count();
        assert!(tried <= 4, "tried {tried} times: {told:?}");
        load.finish().await
    });
}

#[test]
fn between_two_networks_there_may_be_none() {
    between_hosts(|cables, mut load| async move {
        load.send_for(Duration::from_millis(200)).await;
        cables.pull(1);
        load.send_for(Duration::from_secs(1)).await;
        cables.lay(2);
        // The other end's first address can also be reached over the second network, as on the Internet.
        cables.here("route add 10.1.0.2 dev near2");
        cables.there("route add 10.1.0.1 dev far2");
        load.send_for(Duration::from_secs(1)).await;
        load.until("10.2.0.1", |paths| paths.iter().any(|path| is_from(path, "10.2.0.1"))).await;
        load.finish().await
    });
}
