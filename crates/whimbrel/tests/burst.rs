//! Many clients connect at once. Some key agreements run outside the receive loop, with no difference that a client
//! sees.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use whimbrel::{Config, Endpoint, new_identity};

/// More clients than the receive loop makes key agreements for in a row.
const CLIENTS: usize = 150;

/// Lets a burst of clients connect, each of which is heard once.
async fn burst(server: &Endpoint, client: &Endpoint) {
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let mut near = Vec::new();
    for number in 0..CLIENTS {
        let mocket = client.begin_connect(&url).await.unwrap();
        mocket.send(format!("{number}")).await.unwrap();
        near.push(mocket);
    }
    let mut far = Vec::new();
    let mut heard = BTreeSet::new();
    for _ in 0..CLIENTS {
        let mocket = server.accept().await.unwrap();
        let payload = mocket.recv().await.unwrap().payload;
        assert!(heard.insert(payload.clone()), "{payload:?} came twice");
        far.push(mocket);
    }
    for mocket in &near {
        mocket.established().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_at_once_each_is_let_in_and_heard_once() {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let client = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
    let is_shared_out = std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    let mut bursts = 0;
    // On a host so busy that the clients come slowly, the loop has the time for all of them.
    while bursts == 0 || is_shared_out && server.agreements_off_loop() == 0 && bursts < 100 {
        burst(&server, &client).await;
        bursts += 1;
    }
    let stats = server.stats();
    assert_eq!((stats.accepted, stats.forged), ((bursts * CLIENTS) as u64, 0), "{stats:?}");
    assert_eq!(server.agreements_off_loop() > 0, is_shared_out, "{bursts} bursts");
    assert!(server.agreements_off_loop() < stats.agreements, "the loop makes some of them");
}
