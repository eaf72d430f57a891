//! Sessions that leave their connection, close, or stand still.

use std::time::Duration;

use tracing::Level;
use whimbrel_proto::session::StreamKind;
use whimbrel_proto::{Service, SuspendMode, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::collected::Collected;
use super::{LINK, SECOND, id, one};

const RS: Service = Service::ReliableSequenced;

#[test]
fn a_session_is_suspended_and_resumed_step_by_step() {
    let ((ids, resumed), events) = Collected::during(|| {
        let mut pair = Pair::connected(1, TransportConfig::default(), LINK);
        let ids = End::BOTH.map(|end| id(&mut pair, end));
        pair.send(End::Server, RS, "waits");
        let now = pair.now();
        pair.connection(End::Client).suspend(now, SuspendMode::Snapshot, None).expect("it can be suspended");
        pair.run(5 * SECOND);
        let (node, handle) = pair.place(End::Client).expect("it is there");
        let state = pair.world.take_suspended(node, handle).expect("the state is there");
        let handle = pair.world.resume(node, &state, None).expect("it can be resumed");
        pair.run(5 * SECOND);
        pair.adopt(End::Client, handle);
        (ids, End::BOTH.map(|end| id(&mut pair, end)))
    });
    let [client, server] = &ids;
    assert_eq!(one(&events, client, "suspending").field("mode"), "at once");
    let suspended = one(&events, client, "suspended");
    assert_eq!(suspended.field("reason"), "the peer waits");
    assert!(suspended.field("bytes").parse().unwrap_or(0) > 10, "{suspended:?}");
    assert_eq!(one(&events, client, "closed").field("reason"), "suspended");
    one(&events, server, "the peer suspends its end");
    assert_eq!(one(&events, server, "the session waits for its peer").field("granted"), "true");
    let asked = one(&events, server, "the peer asks to resume");
    assert_eq!((asked.field("granted"), asked.field("reason")), ("true", "the claim is proven"));
    // From now on, the events name the connection that carries the session.
    let reattached = one(&events, &resumed[1], "reattached: the session goes on over another connection");
    assert_eq!(reattached.field("reason"), "the peer resumed its end");
    assert_eq!(reattached.field("before"), server);
    one(&events, &resumed[0], "resumed");
    let life = events.iter().filter(|told| told.target == "whimbrel::session");
    assert!(life.clone().count() >= 7 && life.clone().all(|told| told.level == Level::INFO));
}

#[test]
fn a_session_whose_peer_lost_its_connection_is_dialled_for() {
    let (ids, events) = Collected::during(|| {
        let mut pair = Pair::connected(2, TransportConfig::default().idle_timeout(3 * SECOND), LINK);
        let ids = End::BOTH.map(|end| id(&mut pair, end));
        pair.relink("rate=10mbit, delay=10ms, loss=100%");
        pair.run(20 * SECOND);
        pair.relink(LINK);
        pair.run(20 * SECOND);
        ids
    });
    let detached = one(&events, &ids[0], "detached: the session is kept without a connection");
    assert_eq!(detached.field("reason"), "nothing was heard for the idle timeout");
    assert_eq!(one(&events, &ids[0], "dialling the peer").field("ways"), "1");
    assert!(events.iter().any(|told| told.message().starts_with("reattached")));
}

#[test]
fn a_close_says_who_and_why_and_hostile_text_is_escaped() {
    let (ids, events) = Collected::during(|| {
        let mut pair = Pair::connected(3, TransportConfig::default(), LINK);
        let ids = End::BOTH.map(|end| id(&mut pair, end));
        pair.close(End::Client, 7, "bye\x1b[2J\nINFO owned");
        assert!(pair.run_until(5 * SECOND, Pair::both_closed));
        ids
    });
    for (id, by) in ids.iter().zip(["this end", "peer"]) {
        let closing = one(&events, id, "closing: what is queued is delivered first");
        assert_eq!((closing.field("by"), closing.field("code")), (by, "7"));
        assert_eq!(closing.field("text"), r"bye\u{1b}[2J\u{a}INFO owned");
    }
    let closed = one(&events, &ids[1], "closed");
    assert_eq!(closed.field("reason"), r"closed by the peer (code 7): bye\u{1b}[2J\u{a}INFO owned");
    assert_eq!((closed.field("owner"), closed.field("code")), ("remote", "7"));
}

#[test]
fn a_stream_that_nobody_reads_says_who_holds_the_credit() {
    let ((ids, stream), events) = Collected::during(|| {
        let mut pair = Pair::connected(4, TransportConfig::default(), LINK);
        let ids = End::BOTH.map(|end| id(&mut pair, end));
        let now = pair.now();
        let session = pair.session(End::Client);
        let stream = session.open_stream(StreamKind::Bytes).expect("it may be opened");
        session.write(now, stream, vec![1; 900_000].into()).expect("it is open");
        pair.run(5 * SECOND);
        while matches!(
            pair.session(End::Server).read(stream, 100_000),
            Ok(whimbrel_proto::session::Read::Data(_))
        ) {
            pair.run(Duration::from_millis(20));
        }
        let now = pair.now();
        pair.session(End::Client).reset(stream, 9).expect("it is open");
        assert!(pair.session(End::Client).write(now, stream, vec![1].into()).is_err());
        pair.run(SECOND);
        (ids, stream.0.to_string())
    });
    let holders = ["the peer's application does not read it", "this end does not read it"];
    for (id, holder) in ids.iter().zip(holders) {
        let stalled = one(&events, id, "stream stalled for want of credit");
        assert_eq!((stalled.field("stream"), stalled.field("reason")), (&*stream, holder));
        assert_eq!(one(&events, id, "stream moves again").field("stream"), stream);
    }
    let opened: Vec<_> = ids.iter().map(|id| one(&events, id, "stream opened").field("by")).collect();
    assert_eq!(opened, ["this end", "peer"]);
    assert_eq!(one(&events, &ids[1], "stream reset").field("code"), "9");
}

#[test]
fn a_restarted_server_answers_with_a_reset_and_the_client_hears_it() {
    let (client, events) = Collected::during(|| {
        let mut pair = Pair::connected(5, TransportConfig::default().reattach(None), LINK);
        let client = id(&mut pair, End::Client);
        pair.world.restart(SERVER);
        pair.send(End::Client, RS, "hello?");
        pair.run(5 * SECOND);
        client
    });
    let reset = events.iter().find(|told| told.message() == "stateless reset sent");
    assert!(reset.is_some_and(|told| told.field("connection").len() == 16), "{reset:?}");
    one(&events, &client, "the peer knows this connection no longer");
    assert_eq!(one(&events, &client, "closed").field("reason"), "the peer was restarted");
}
