//! The recordings of qlog hold all that the events say.

use whimbrel_proto::TransportConfig;
use whimbrel_sim::pair::{End, Pair};

use super::{LINK, SECOND};

#[test]
fn reasons_are_recorded_and_hostile_text_stays_within_its_quotes() {
    let mut pair = Pair::connected(1, TransportConfig::default().qlog(true), LINK);
    pair.close(End::Client, 7, "\"}, {\"name\": \"owned\"\x1b");
    assert!(pair.run_until(5 * SECOND, Pair::both_closed));
    let records = pair.connection(End::Server).poll_qlog().expect("it was recorded");
    let record = |name: &str| {
        let found = records.lines().find(|record| record.contains(&format!("\"name\":\"{name}\"")));
        found.unwrap_or_else(|| panic!("{name} is not in\n{records}")).to_owned()
    };
    assert!(record("whimbrel:path_updated").contains(r#""reason":"the handshake used it""#));
    assert!(record("whimbrel:connected").contains(r#""peer":""#));
    let closing = record("whimbrel:closing");
    assert!(
        closing.contains(r#""by":"peer","code":7,"text":"\"}, {\"name\": \"owned\"\\u{1b}""#),
        "{closing}"
    );
    assert!(record("connectivity:connection_closed").contains(r#""owner":"remote","code":7"#));
}
