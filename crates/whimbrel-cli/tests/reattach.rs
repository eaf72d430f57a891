//! Tests two endpoints of the library with `whimbrel link` between them, and an outage longer than their connection
//! lives.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::time::Duration;

use common::{Home, Running, whimbrel};
use whimbrel::{Config, Endpoint, Event, Mocket, new_identity};

/// Longer than anything takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
const MESSAGES: u32 = 160;

fn config(config: Config) -> Config {
    let mut config = config;
    config.transport.idle_timeout = Duration::from_secs(2);
    config.transport.keep_alive = Some(Duration::from_millis(500));
    config
}

/// Sends a message every 50 ms: before, during and after the outage.
async fn talk(mocket: Mocket) {
    for number in 0..MESSAGES {
        mocket.send(number.to_be_bytes().to_vec()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn listen(mocket: Mocket) {
    for number in 0..MESSAGES {
        assert_eq!(mocket.recv().await.unwrap().payload, number.to_be_bytes()[..], "in order, once");
    }
}

async fn outlives(mocket: &Mocket) -> Vec<Event> {
    let mut events = mocket.subscribe();
    let mut heard = Vec::new();
    loop {
        heard.push(events.recv().await.unwrap());
        if matches!(heard.last(), Some(Event::Reattached { .. })) {
            return heard;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_its_connection_over_a_real_link() {
    let home = Home::new("reattach");
    let listener = Config::listen_as(new_identity());
    let server = Endpoint::bind(config(listener), "127.0.0.1:0").await.unwrap();
    let to = server.local_addr().unwrap().to_string();
    let link = Running::listening(whimbrel(&home).args([
        "link",
        "--to",
        &to,
        "--delay",
        "5ms",
        "--outage",
        "at 1s for 6s",
    ]));
    let client = Endpoint::bind(config(Config::default()), "127.0.0.1:0").await.unwrap();
    let near =
        client.connect(&format!("whimbrel://{}@{}", server.public_key(), link.listening)).await.unwrap();
    let far = server.accept().await.unwrap();

    let all = async {
        let talking = [tokio::spawn(talk(near.clone())), tokio::spawn(talk(far.clone()))];
        let listening = [tokio::spawn(listen(near.clone())), tokio::spawn(listen(far.clone()))];
        let (near_heard, far_heard) = tokio::join!(outlives(&near), outlives(&far));
        for heard in [near_heard, far_heard] {
            assert!(heard.contains(&Event::OutOfService) && heard.contains(&Event::Detached), "{heard:?}");
        }
        for task in talking.into_iter().chain(listening) {
            task.await.unwrap();
        }
        assert_eq!(near.close(0, "").await, whimbrel::CloseReason::Local);
    };
    tokio::time::timeout(PATIENCE, all).await.expect("it goes on by itself");
}
