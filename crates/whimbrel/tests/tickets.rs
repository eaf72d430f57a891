//! Tickets and the key log over real sockets.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod relay;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use whimbrel::{Config, Endpoint, Event, Identity, ListenConfig, Mocket, TransportConfig, new_identity};

use relay::Relay;

fn listener() -> Config {
    let listen = ListenConfig::default().early_from_tickets(true);
    Config::default().listen(Some(listen))
}

fn client(identity: &Identity) -> Config {
    Config::default().identity(identity.clone())
}

async fn ticket_of(mocket: &Mocket) {
    let mut events = mocket.subscribe();
    tokio::time::timeout(Duration::from_secs(5), async {
        while mocket.ticket().is_none() {
            if let Event::Closed(reason) = events.recv().await.unwrap() {
                panic!("{reason}");
            }
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_program_that_keeps_its_tickets_returns_with_data_on_the_first_packet() {
    let server = Endpoint::bind(listener(), "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let identity = new_identity();
    let first = Endpoint::bind(client(&identity), "127.0.0.1:0").await.unwrap();
    let near = first.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    ticket_of(&near).await;
    assert!(far.ticket().is_none());
    near.close(0, "").await;
    first.wait_idle().await;
    let kept = first.export_tickets();
    drop(first);

    let second = Endpoint::bind(client(&identity), "127.0.0.1:0").await.unwrap();
    assert!(second.import_tickets(&kept[1..]).is_err());
    assert_eq!(second.import_tickets(&kept), Ok(1));
    let syns = server.stats().syns;
    let near = second.begin_connect(&url).await.unwrap();
    near.send("at once").await.unwrap();
    let far = server.accept().await.unwrap();
    assert_eq!(far.recv().await.unwrap().payload, "at once");
    assert_eq!(server.stats().syns, syns, "no SYN was needed");
    near.established().await.unwrap();
    ticket_of(&near).await;

    // The ticket was good once, and the server has given a new one.
    let third = Endpoint::bind(client(&identity), "127.0.0.1:0").await.unwrap();
    assert_eq!(third.import_tickets(&kept), Ok(1));
    let near = third.begin_connect(&url).await.unwrap();
    near.send("a little later").await.unwrap();
    let far = server.accept().await.unwrap();
    let message = far.recv().await.unwrap();
    assert_eq!(message.payload, "a little later");
    near.established().await.unwrap();
}

/// A directory for this test, removed when it ends.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("whimbrel-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[tokio::test]
async fn the_key_log_opens_what_was_captured() {
    let scratch = Scratch::new("key-log");
    let (log, capture) = (scratch.0.join("keys.log"), scratch.0.join("capture.pcap"));
    let server = Endpoint::bind(listener().key_log(None), "127.0.0.1:0").await.unwrap();
    let relay = Relay::start(server.local_addr().unwrap(), &capture).await;
    // Key generations change often, so that the log has several.
    let mut transport = TransportConfig::default();
    transport.key_update_packets = 40;
    let config = Config::default().key_log(Some(log.clone())).transport(transport);
    let endpoint = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), relay.address());
    // The second connection uses a ticket.
    for _ in 0..2 {
        let near = endpoint.begin_connect(&url).await.unwrap();
        for _ in 0..40 {
            near.send(vec![b'n'; 1000]).await.unwrap();
        }
        let far = server.accept().await.unwrap();
        for _ in 0..40 {
            assert_eq!(far.recv().await.unwrap().payload.len(), 1000);
        }
        for _ in 0..100 {
            far.send("far").await.unwrap();
            assert_eq!(near.recv().await.unwrap().payload, "far");
            near.send("near").await.unwrap();
            assert_eq!(far.recv().await.unwrap().payload, "near");
        }
        ticket_of(&near).await;
        near.close(0, "").await;
    }
    endpoint.wait_idle().await;
    relay.finish().await;

    check_log(&log);
    check_dissection(&log, &capture, [relay_port(&url), &endpoint.local_addr().unwrap().port().to_string()]);
}

fn relay_port(url: &str) -> &str {
    url.rsplit(':').next().unwrap()
}

/// Checks that the log has both directions of both connections, each key generation once, and the early keys of each.
fn check_log(log: &Path) {
    let text = std::fs::read_to_string(log).unwrap();
    let mut keys_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<_> = line.split(' ').collect();
        assert_eq!((fields.len(), fields[0]), (6, "WHIMBREL_TRAFFIC"), "{line}");
        assert!(keys_of.entry(fields[1]).or_default().insert(fields[3]), "said twice: {line}");
    }
    assert_eq!(keys_of.len(), 4, "two ids of two connections: {text}");
    assert!(keys_of.values().all(|keys| keys.len() > 1), "several generations: {text}");
    // The server's connections have one more line, since early packets only go to the server.
    assert_eq!(keys_of.values().filter(|keys| keys.len() % 2 == 0).count(), 2, "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// Checks what tshark makes of the capture, if it is installed. `ports` has the listening side's first.
fn check_dissection(log: &Path, capture: &Path, ports: [&str; 2]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/wireshark/whimbrel.lua");
    let output = Command::new("tshark")
        .env("WHIMBREL_KEYLOGFILE", log)
        .arg("-X")
        .arg(format!("lua_script:{script}"))
        .arg("-r")
        .arg(capture)
        // Without this, tshark may take any port for another protocol's.
        .args(ports.iter().flat_map(|port| ["-d".to_owned(), format!("udp.port=={port},whimbrel")]))
        .args(["-T", "fields", "-e", "udp.srcport", "-e", "_ws.col.Info"])
        .output();
    let Ok(output) = output else {
        whimbrel_testing::skipped("tshark is not installed, the capture was not dissected");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().map(|line| line.split_once('\t').unwrap()).collect();
    let opened = |mine: bool| {
        lines
            .iter()
            .filter(|(from, info)| (*from == ports[0]) == mine && info.contains("DATA stream=0"))
            .count()
    };
    assert!(opened(false) >= 40 && opened(true) >= 100, "{text}");
    let handshake = ["SYN ", "SYN-ACK ", "PING", "PONG"];
    let explained = |info: &str| info.starts_with('#') || handshake.iter().any(|name| info.starts_with(name));
    let shut: Vec<_> = lines.iter().filter(|(_, info)| !explained(info)).collect();
    assert!(shut.is_empty(), "every packet after the handshake opens: {shut:?} of {text}");
    assert!(!text.contains("alformed"), "{text}");
}
