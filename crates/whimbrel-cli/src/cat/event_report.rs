//! Reports events of the session and its paths to people on standard error.

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use whimbrel::EventsError;
use whimbrel::{Event, Mocket, PathId};

use crate::output::note;
use crate::path_lines::{PathLines, ends};
use crate::shown::size;

/// How often figures are shown.
const EVERY: Duration = Duration::from_secs(1);

/// Reports events until it is dropped. It always reports that the peer is out of reach, and when it is back. Other
/// events are reported on a terminal, or if `figures` are wanted; the figures are shown each second.
pub(super) async fn tell(mocket: &Mocket, figures: bool) -> Infallible {
    let all = figures || io::stderr().is_terminal();
    let mut events = mocket.subscribe();
    let mut lines = PathLines::default();
    let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut shown = Instant::now();
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(event) => {
                    let told = reach(&event).map(str::to_owned);
                    told.or_else(|| news(&event, mocket).filter(|_| all)).into_iter().for_each(note);
                }
                Err(EventsError::Missed(_)) => {}
                Err(EventsError::Closed) => return pending().await,
            },
            _ = ticks.tick(), if figures => {
                // A busy machine shows figures late, so rates use the time that really passed.
                let since = std::mem::replace(&mut shown, Instant::now());
                lines.next(&mocket.paths(), (shown - since).as_secs_f64()).into_iter().for_each(note);
            }
        }
    }
}

/// The message for events that matter to anyone who waits for the peer.
fn reach(event: &Event) -> Option<&'static str> {
    match event {
        Event::PeerUnreachable => Some("the peer is out of reach: what is sent waits; Ctrl-C gives it up"),
        Event::PeerReachable => Some("the peer answers again"),
        _ => None,
    }
}

fn news(event: &Event, mocket: &Mocket) -> Option<String> {
    let named = |id: PathId| {
        let paths = mocket.paths();
        let known = paths.iter().find(|path| path.id == id);
        known.map_or_else(|| format!("path {}", id.0), |path| format!("path {} {}", id.0, ends(path)))
    };
    Some(match event {
        Event::PathUp(id) => format!("{}: up", named(*id)),
        Event::PathSuspect(id) => {
            format!("{}: overdue, what is in flight on it takes another path", named(*id))
        }
        Event::PathDown(id) => format!("{}: down", named(*id)),
        Event::PathClosed(path) => format!(
            "path {} {}: closed; sent {}, received {}",
            path.id.0,
            ends(path),
            size(path.sent_bytes),
            size(path.received_bytes)
        ),
        Event::PrimaryChanged(id) => format!("{}: data goes here first", named(*id)),
        Event::PeerAddressChanged { path, to, .. } => format!("path {}: the peer is at {to} now", path.0),
        Event::LocalAddressAdded(local) => format!("this host has {} now", local.ip()),
        Event::LocalAddressRemoved(local) => format!("this host no longer has {}", local.ip()),
        Event::PeerAddressAdded(address) => format!("the peer has {address} now"),
        Event::PeerAddressRemoved(address) => format!("the peer no longer has {address}"),
        Event::Detached => "the connection is given up, the session is kept: what is sent waits".to_owned(),
        Event::Reattached { to, .. } => format!("the session goes on with {to}"),
        Event::PeerSuspended => "the peer has suspended the session: what is sent waits".to_owned(),
        Event::PeerResumed { to, .. } => format!("the peer goes on with the session, from {to}"),
        _ => return None,
    })
}
