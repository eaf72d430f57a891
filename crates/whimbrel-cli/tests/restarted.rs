//! Tests that peers notice at once when a listener is restarted with the same key and port.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use common::{Home, Running, whimbrel};
use whimbrel::{CloseReason, Config, Endpoint};

/// An address that nobody uses now.
fn free_address() -> String {
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[tokio::test]
async fn a_listener_stores_its_salt_beside_its_key() {
    let home = Home::new("restarted");
    assert!(whimbrel(&home).args(["key", "new"]).status().unwrap().success());
    let address = free_address();
    let serve = || Running::listening(whimbrel(&home).args(["perf", "serve", "--listen", &address]));
    let server = serve();
    let mut config = Config::default();
    config.transport.reattach = None;
    let client = Endpoint::bind(config, "127.0.0.1:0").await.unwrap();
    let mocket = client.connect(&server.listening).await.unwrap();
    server.signal("-KILL");
    server.end();
    let _server = serve();
    let salt = home.file(&format!("whimbrel/key.salt-{}", address.replace(':', "-")));
    assert_eq!(std::fs::metadata(&salt).unwrap().permissions().mode() & 0o777, 0o600);
    mocket.send("is anybody there?").await.unwrap();
    // By silence alone it would take minutes.
    let closed = tokio::time::timeout(Duration::from_secs(60), mocket.closed()).await;
    assert_eq!(closed, Ok(CloseReason::PeerRestarted));
}
