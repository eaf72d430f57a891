//! Several local addresses, with real packets on loopback.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
// On systems other than Linux, 127.0.0.2 has to be set up first.
#![cfg(target_os = "linux")]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use whimbrel::{
    Config, CostPolicy, Endpoint, Event, LocalPath, Mocket, OpenPathError, PathError, PathId, PathState,
    PathStats, Paths, SetPrimaryError, new_identity,
};

const FIRST: &str = "127.0.0.1";
const SECOND: &str = "127.0.0.2";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn only(paths: &[LocalPath]) -> Config {
    Config::default().paths(Paths::Only(paths.to_vec()))
}

async fn connect(config: Config, bind: &str) -> (Endpoint, Endpoint, Mocket, Mocket) {
    let server = Endpoint::bind(Config::listen_as(new_identity()), "127.0.0.1:0").await.unwrap();
    let client = Endpoint::bind(config, bind).await.unwrap();
    let url = format!("whimbrel://{}@{}", server.public_key(), server.local_addr().unwrap());
    let near = client.connect(&url).await.unwrap();
    let far = server.accept().await.unwrap();
    (server, client, near, far)
}

fn locals(paths: &[PathStats]) -> Vec<IpAddr> {
    let mut locals: Vec<IpAddr> =
        paths.iter().filter(|path| path.state != PathState::Opening).filter_map(|path| path.local).collect();
    locals.sort();
    locals
}

/// The polling interval for things that have no event.
const POLL: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);

async fn until(mocket: &Mocket, wanted: impl Fn(&[PathStats]) -> bool) -> Vec<PathStats> {
    let end = Instant::now() + PATIENCE;
    loop {
        let paths = mocket.paths();
        if wanted(&paths) {
            return paths;
        }
        assert!(Instant::now() < end, "{paths:?}");
        sleep(POLL).await;
    }
}

/// Opens a path by hand, as soon as the connection IDs for it have arrived with the first packets.
async fn open_by_hand(near: &Mocket, local: IpAddr, remote: SocketAddr) -> PathId {
    let end = Instant::now() + PATIENCE;
    loop {
        match near.open_path(Some(local), remote) {
            Ok(path) => return path,
            Err(PathError::Refused(error @ OpenPathError::NotReady)) => {
                assert!(Instant::now() < end, "{error}");
            }
            Err(other) => panic!("{other}"),
        }
        sleep(POLL).await;
    }
}

/// Checks that the messages of one end arrive complete and in order, whatever happens to the paths meanwhile.
async fn exchange(near: &Mocket, far: &Mocket, messages: u32) {
    let sending = async {
        for number in 0..messages {
            let mut payload = vec![7; 1000];
            payload[..4].copy_from_slice(&number.to_be_bytes());
            near.send(payload).await.unwrap();
        }
    };
    let receiving = async {
        for number in 0..messages {
            assert_eq!(far.recv().await.unwrap().payload[..4], number.to_be_bytes());
        }
    };
    timeout(Duration::from_secs(30), async { tokio::join!(sending, receiving) }).await.unwrap();
}

#[tokio::test]
async fn named_addresses_are_both_used_and_the_preferred_begins() {
    let config = only(&[ip(FIRST).into(), LocalPath { prefer: true, ..ip(SECOND).into() }]);
    let (_server, _client, near, far) = connect(config, "0.0.0.0:0").await;
    assert_eq!(far.peer_addr().ip(), ip(SECOND));
    let paths = until(&near, |paths| locals(paths) == [ip(FIRST), ip(SECOND)]).await;
    assert!(paths.iter().all(|path| path.state == PathState::Active), "{paths:?}");
    let mut remotes: Vec<IpAddr> = far.paths().iter().map(|path| path.remote.ip()).collect();
    remotes.sort();
    assert_eq!(remotes, [ip(FIRST), ip(SECOND)], "each from its own socket");
    exchange(&near, &far, 5000).await;
    exchange(&far, &near, 5000).await;
}

#[tokio::test]
async fn loopback_alone_has_one_path() {
    let (server, _client, near, far) = connect(Config::default(), "0.0.0.0:0").await;
    exchange(&near, &far, 100).await;
    assert_eq!((near.paths().len(), far.paths().len()), (1, 1));
    // Once a path can be opened by hand, others could have been opened automatically.
    let opened = open_by_hand(&near, ip(SECOND), server.local_addr().unwrap()).await;
    exchange(&near, &far, 100).await;
    until(&far, |paths| paths.iter().any(|path| path.id == opened)).await;
    assert_eq!((near.paths().len(), far.paths().len()), (2, 2));
}

#[tokio::test]
async fn a_single_path_stays_single() {
    let single = Config::default().paths(Paths::Single);
    let (server, _client, near, far) = connect(single, "0.0.0.0:0").await;
    exchange(&near, &far, 100).await;
    let further = near.open_path(Some(ip(SECOND)), server.local_addr().unwrap());
    assert!(matches!(further, Err(PathError::Refused(OpenPathError::TooMany))), "{further:?}");
    assert_eq!((near.paths().len(), far.paths().len()), (1, 1));
}

#[tokio::test]
async fn paths_are_opened_and_closed_by_hand() {
    let (server, _client, near, far) = connect(Config::default(), "0.0.0.0:0").await;
    let remote = server.local_addr().unwrap();
    let mut events = near.subscribe();
    let opened = open_by_hand(&near, ip(SECOND), remote).await;
    timeout(Duration::from_secs(5), async { while events.recv().await.unwrap() != Event::PathUp(opened) {} })
        .await
        .unwrap();
    let first = near.paths().iter().find(|path| path.id != opened).unwrap().id;
    near.close_path(first);
    let closed = timeout(Duration::from_secs(5), async {
        loop {
            if let Event::PathClosed(stats) = events.recv().await.unwrap() {
                return stats;
            }
        }
    });
    assert_eq!(closed.await.unwrap().id, first);
    exchange(&near, &far, 2000).await;
    assert_eq!(locals(&near.paths()), [ip(SECOND)]);
    until(&far, |paths| paths.len() == 1 && paths[0].remote.ip() == ip(SECOND)).await;
}

#[tokio::test]
async fn an_application_that_knows_better_moves_the_session() {
    let (_server, _client, near, far) = connect(only(&[ip(FIRST).into()]), "0.0.0.0:0").await;
    assert_eq!(locals(&near.paths()), [ip(FIRST)]);
    for round in 0..6 {
        let (new, old) = if round % 2 == 0 { (SECOND, FIRST) } else { (FIRST, SECOND) };
        near.set_paths(Paths::Only(vec![ip(old).into(), ip(new).into()])).unwrap();
        until(&near, |paths| locals(paths).len() == 2).await;
        near.set_paths(Paths::Only(vec![ip(new).into()])).unwrap();
        exchange(&near, &far, 500).await;
        until(&near, |paths| locals(paths) == [ip(new)]).await;
    }
    near.set_paths(Paths::Only(vec![ip(FIRST).into(), LocalPath { standby: true, ..ip(SECOND).into() }]))
        .unwrap();
    until(&near, |paths| {
        let state = |local| paths.iter().find(|path| path.local == Some(local)).map(|path| path.state);
        state(ip(FIRST)) == Some(PathState::Active) && state(ip(SECOND)) == Some(PathState::Standby)
    })
    .await;
}

#[tokio::test]
async fn the_primary_is_set_for_both_ends() {
    let (_server, _client, near, far) =
        connect(only(&[ip(FIRST).into(), ip(SECOND).into()]), "0.0.0.0:0").await;
    until(&near, |paths| locals(paths).len() == 2).await;
    until(&far, |paths| paths.iter().filter(|path| path.state == PathState::Active).count() == 2).await;
    let ids: Vec<PathId> = near.paths().iter().map(|path| path.id).collect();
    for (who, id) in [(&near, ids[1]), (&far, ids[0]), (&near, ids[1])] {
        let agreed =
            || [&near, &far].iter().all(|end| end.paths().iter().any(|path| path.primary && path.id == id));
        let end = Instant::now() + PATIENCE;
        while !agreed() {
            assert!(Instant::now() < end, "{:?}, {:?}", near.paths(), far.paths());
            // A choice that crosses the other end's latest one may have no effect.
            who.set_primary(id).unwrap();
            sleep(POLL).await;
        }
    }
    assert_eq!(near.set_primary(PathId(99)), Err(SetPrimaryError::NoPath));
}

#[tokio::test]
async fn a_path_that_costs_waits_for_the_application() {
    let mut config =
        only(&[LocalPath { prefer: true, ..ip(FIRST).into() }, LocalPath { cost: 3, ..ip(SECOND).into() }]);
    config.transport.cost_policy = CostPolicy::Ask;
    let (_server, _client, near, far) = connect(config, "0.0.0.0:0").await;
    let mut events = near.subscribe();
    until(&near, |paths| locals(paths).len() == 2).await;
    let asked = timeout(Duration::from_secs(5), async {
        loop {
            if let Event::PathCostAsked { path, cost } = events.recv().await.unwrap() {
                return (path, cost);
            }
        }
    });
    let (path, cost) = asked.await.unwrap();
    assert_eq!(cost, 3);
    let free = near.paths().iter().find(|other| other.id != path).unwrap().id;
    near.allow_path(path, true);
    near.close_path(free);
    exchange(&near, &far, 500).await;
}

#[tokio::test]
async fn mistakes_are_told() {
    let (server, _client, near, far) = connect(Config::default(), "0.0.0.0:0").await;
    let remote: SocketAddr = server.local_addr().unwrap();
    let elsewhere = ip("203.0.113.77");
    let wrong = near.open_path(Some(elsewhere), remote).unwrap_err();
    assert!(matches!(wrong, PathError::NotLocal(ip) if ip == elsewhere), "{wrong}");
    assert!(near.set_paths(Paths::Only(vec![elsewhere.into()])).is_err());
    assert!(matches!(far.open_path(None, remote), Err(PathError::Refused(_))), "the client opens paths");
    let client = Endpoint::bind(only(&[elsewhere.into()]), "0.0.0.0:0").await.unwrap();
    let url = format!("whimbrel://{}@{remote}", server.public_key());
    let nowhere = client.begin_connect(&url).await.err().unwrap();
    assert!(nowhere.to_string().contains("no address in `paths`"), "{nowhere}");
}
