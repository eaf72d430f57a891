//! The events of `tracing`, with the ids and reasons that they give, and their counterparts in recordings.

mod collected;
mod endpoint;
mod recording;
mod sessions;
mod several_paths;

use std::time::Duration;

use collected::Told;
use whimbrel_link::LinkConfig;
use whimbrel_sim::pair::{End, Pair};

const SECOND: Duration = Duration::from_secs(1);
const LINK: &str = "rate=10mbit, delay=10ms, queue=100ms";

fn link(text: &str) -> LinkConfig {
    text.parse().expect("a test's link is well written")
}

/// The id by which the events of an end name its connection.
fn id(pair: &mut Pair, end: End) -> String {
    format!("{:?}", pair.connection(end).local_id())
}

/// The events of one connection with this text.
fn of<'a>(events: &'a [Told], connection: &str, message: &str) -> Vec<&'a Told> {
    let fits = |told: &&Told| told.field("id") == connection && told.message() == message;
    events.iter().filter(fits).collect()
}

/// The one event of a connection with this text.
fn one<'a>(events: &'a [Told], connection: &str, message: &str) -> &'a Told {
    match of(events, connection, message)[..] {
        [told] => told,
        ref found => panic!("{connection}: {message}: {found:#?}"),
    }
}
