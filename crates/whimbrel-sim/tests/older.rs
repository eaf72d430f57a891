//! Sessions that an older revision suspended at both ends go on with today's code (`crates/whimbrel-testing/captured`).

use std::time::Duration;

use whimbrel_proto::crypto::Identity;
use whimbrel_proto::session::{Read, SessionEvent, StreamKind};
use whimbrel_proto::{Handle, ListenConfig, StreamId, Suspended, TransportConfig};
use whimbrel_sim::host::Host;
use whimbrel_sim::world::{SERVER, World};

const CLIENT_STATE: &[u8] = include_bytes!("../../whimbrel-testing/captured/client.session");
const SERVER_STATE: &[u8] = include_bytes!("../../whimbrel-testing/captured/server.session");
const LINK: &str = "rate=10mbit, delay=20ms, loss=2%";
const SECOND: Duration = Duration::from_secs(1);

/// A world with the two hosts, on which the two sessions wait and are resumed.
fn resumed() -> (World<Host>, usize, [Handle; 2]) {
    let link = || LINK.parse().expect("a test's link is well written");
    let mut world = World::new(1, TransportConfig::default(), ListenConfig::default());
    let client = world.add_client(TransportConfig::default(), link(), link());
    for (node, secret) in [(SERVER, 0xc0), (client, 0xc1)] {
        world.node_mut(node).set_identity(Identity::from_secret([secret; 32]));
        world.restart(node);
    }
    let [near, far] =
        [CLIENT_STATE, SERVER_STATE].map(|bytes| Suspended::from_bytes(bytes).expect("a session"));
    let far = world.wait_for_peer(SERVER, &far).expect("it can be taken up");
    let near = world.resume(client, &near, None).expect("it can be resumed");
    (world, client, [near, far])
}

/// The texts of the messages that have arrived, and `…` for a long one.
fn texts(world: &mut World<Host>, node: usize, handle: Handle) -> Vec<String> {
    let now = world.now();
    let session = world.peer(node, handle).connection.session();
    let messages = std::iter::from_fn(|| session.recv(now));
    let text = |payload: &[u8]| String::from_utf8(payload.to_vec()).expect("a text");
    messages.map(|m| if m.payload.len() == 4000 { "…".to_owned() } else { text(&m.payload) }).collect()
}

#[test]
fn nothing_of_an_older_session_is_lost_or_doubled() {
    let (mut world, client, [near, far]) = resumed();
    world.run(20 * SECOND);
    for (node, handle, from) in [(client, near, "server"), (SERVER, far, "client")] {
        let (long, rest): (Vec<_>, Vec<_>) =
            texts(&mut world, node, handle).into_iter().partition(|text| text == "…");
        let numbered = (0..20).map(|number| format!("{number} of the {from}"));
        assert_eq!(rest, numbered.chain(["tagged".to_owned()]).collect::<Vec<_>>());
        assert_eq!(long.len(), 1, "the long message of the {from}");
    }
    let [stream] =
        Suspended::from_bytes(SERVER_STATE).expect("a session").byte_streams().expect("streams")[..]
    else {
        panic!("one byte stream")
    };
    let session = world.peer(SERVER, far).connection.session();
    let mut bytes = Vec::new();
    let end = loop {
        match session.read(stream, 10_000).expect("it is there") {
            Read::Data(more) => bytes.extend_from_slice(&more),
            end => break end,
        }
    };
    assert_eq!((bytes, end), ((0..6000).map(|at| at as u8).collect(), Read::Finished));
}

#[test]
fn both_ends_have_openings_once_both_are_of_today() {
    let (mut world, client, [near, far]) = resumed();
    world.run(20 * SECOND);
    let now = world.now();
    let id: StreamId =
        world.peer(client, near).connection.session().open_stream_with(now, b"to").expect("it is announced");
    world.run(SECOND);
    let session = world.peer(SERVER, far).connection.session();
    let opened = std::iter::from_fn(|| session.poll_event())
        .any(|event| event == SessionEvent::StreamOpened(id, StreamKind::Bytes));
    assert!(opened && session.take_opening(id).as_deref() == Some(b"to"));
}
