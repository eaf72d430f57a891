//! Reports what the connection does to observers: as `tracing` events, and as a qlog recording.
//!
//! State changes are not reported where they happen. After each step of the connection, the observer compares the
//! current state with the state it saw before. Without an observer, this costs one check for None.

use std::net::SocketAddr;

use super::qlog::{Frames, Metrics, Packet, Qlog};
use crate::connection::packet::sent_block::SentBlock;
use crate::connection::paths::path_state::PathState;
use crate::wire::sack::Sack;
use crate::{ConnectionId, PathId, Side, Time};

/// Emits a `tracing` event, if the feature is enabled.
macro_rules! told {
    ($observer:expr, $level:ident, $($rest:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(parent: &$observer.span, $($rest)*);
    };
}

/// Observes one connection. See the module documentation.
pub(in crate::connection) struct Observer {
    qlog: Option<Qlog>,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
    known: Known,
    /// Frames of the packet that is being parsed, as JSON.
    frames: Frames,
}

/// The state seen last.
#[derive(Default)]
struct Known {
    is_established: bool,
    is_proven: bool,
    ending: &'static str,
    key_updates: u64,
    main: Option<PathId>,
    paths: Vec<KnownPath>,
}

/// The current state of the connection.
pub(super) struct Lifecycle {
    pub(super) established: bool,
    pub(super) proven: bool,
    pub(super) ending: &'static str,
    pub(super) key_updates: u64,
    pub(super) main: PathId,
}

/// The state of a path.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KnownPath {
    pub(super) id: PathId,
    pub(super) state: PathState,
    pub(super) remote: SocketAddr,
    pub(super) metrics: Metrics,
    pub(super) phase: &'static str,
    /// Packets lost so far.
    pub(super) lost: u64,
    /// Numbers of lost packets already reported, and when.
    pub(super) told: (Time, Vec<u64>),
}

impl Observer {
    /// Creates an observer. Returns None if neither a recording nor `tracing` wants events.
    pub(in crate::connection) fn wanted(
        now: Time,
        side: Side,
        id: ConnectionId,
        qlog: bool,
    ) -> Option<Box<Self>> {
        #[cfg(feature = "tracing")]
        let span = tracing::debug_span!("connection", id = %format_args!("{:016x}", id.0), side = ?side);
        #[cfg(feature = "tracing")]
        let is_looked_at = !span.is_disabled();
        #[cfg(not(feature = "tracing"))]
        let is_looked_at = false;
        (qlog || is_looked_at).then(|| {
            Box::new(Self {
                qlog: qlog.then(|| Qlog::new(now, side, id)),
                #[cfg(feature = "tracing")]
                span,
                known: Known { ending: "open", ..Known::default() },
                frames: Frames::default(),
            })
        })
    }

    pub(in crate::connection) fn on_started(
        &mut self,
        now: Time,
        local: Option<std::net::IpAddr>,
        remote: SocketAddr,
    ) {
        told!(self, debug, %remote, "connection started");
        if let Some(qlog) = &mut self.qlog {
            qlog.started(now, local, remote);
        }
    }

    pub(in crate::connection) fn on_packet_sent(
        &mut self,
        now: Time,
        path: PathId,
        number: u64,
        size: usize,
        blocks: &[SentBlock],
    ) {
        told!(self, trace, path = path.0, number, size, ?blocks, "packet sent");
        let Some(qlog) = &mut self.qlog else { return };
        let mut frames = Frames::default();
        blocks.iter().for_each(|block| frames.push_sent(block));
        qlog.packet(now, "transport:packet_sent", &Packet { path, number, size, frames: frames.end() });
    }

    /// Begins a packet that is about to be parsed.
    pub(in crate::connection) fn begin_packet(&mut self) {
        self.frames.clear();
    }

    /// Notes a block of the packet that is being parsed.
    pub(in crate::connection) fn on_block(&mut self, kind: u8) {
        if self.qlog.is_some() && kind != crate::wire::block::SACK {
            self.frames.push_received(kind);
        }
    }

    pub(in crate::connection) fn on_sack(&mut self, sack: &Sack) {
        if self.qlog.is_some() {
            self.frames.push_sack(sack);
        }
    }

    pub(in crate::connection) fn on_packet_received(
        &mut self,
        now: Time,
        path: PathId,
        number: u64,
        size: usize,
    ) {
        told!(self, trace, path = path.0, number, size, "packet received");
        if let Some(qlog) = &mut self.qlog {
            let frames = self.frames.end();
            qlog.packet(now, "transport:packet_received", &Packet { path, number, size, frames });
        }
        self.frames.clear();
    }

    /// Reports changes of the connection's state since the last call.
    pub(super) fn look_at_lifecycle(&mut self, now: Time, found: Lifecycle) {
        let Lifecycle { established, proven, ending, key_updates, main } = found;
        let main = Some(main);
        if established != self.known.is_established || proven != self.known.is_proven {
            (self.known.is_established, self.known.is_proven) = (established, proven);
            told!(self, debug, established, proven, "handshake");
            self.tell(
                now,
                "whimbrel:handshake_updated",
                format_args!(r#""established":{established},"proven":{proven}"#),
            );
        }
        if ending != self.known.ending {
            let old = std::mem::replace(&mut self.known.ending, ending);
            told!(self, debug, old, new = ending, "lifecycle");
            self.tell(now, "whimbrel:lifecycle_updated", format_args!(r#""old":"{old}","new":"{ending}""#));
            if ending == "over" {
                self.tell(now, "connectivity:connection_closed", format_args!(r#""reason":"{old}""#));
            }
        }
        if key_updates != self.known.key_updates {
            self.known.key_updates = key_updates;
            told!(self, debug, generation = key_updates, "packet keys updated");
            self.tell(now, "whimbrel:key_updated", format_args!(r#""generation":{key_updates}"#));
        }
        if main != self.known.main {
            self.known.main = main;
            let id = main.map_or(0, |id| id.0);
            told!(self, debug, path = id, "primary path");
            self.tell(now, "whimbrel:primary_updated", format_args!(r#""path":{id}"#));
        }
    }

    /// Reports changes of a path's state since the last call. `lost` returns the numbers of packets just declared
    /// lost.
    pub(super) fn look_at_path(&mut self, now: Time, mut found: KnownPath, lost: impl FnOnce() -> Vec<u64>) {
        let id = found.id;
        let at = self.known.paths.iter().position(|known| known.id == id);
        let known = at.map(|at| self.known.paths[at].clone());
        let (state, remote) = (found.state, found.remote);
        if known.as_ref().is_none_or(|known| (known.state, known.remote) != (state, remote)) {
            let old = known.as_ref().map(|known| known.state);
            told!(self, debug, path = id.0, ?old, new = ?state, %remote, "path");
            let old = old.map_or_else(|| "none".to_owned(), |old| format!("{old:?}"));
            self.tell(
                now,
                "whimbrel:path_updated",
                format_args!(r#""path":{},"old":"{old}","new":"{state:?}","remote":"{remote}""#, id.0),
            );
        }
        let phase = found.phase;
        if known.as_ref().is_none_or(|known| known.phase != phase) {
            let old = known.as_ref().map_or("", |known| known.phase);
            told!(self, debug, path = id.0, old, new = phase, "congestion control");
            self.tell(
                now,
                "recovery:congestion_state_updated",
                format_args!(r#""old":"{old}","new":"{phase}","path":{}"#, id.0),
            );
        }
        if known.as_ref().is_some_and(|known| known.lost != found.lost) {
            let told_before = known.as_ref().filter(|known| known.told.0 == now);
            let numbers = lost();
            for number in &numbers {
                if told_before.is_some_and(|known| known.told.1.contains(number)) {
                    continue;
                }
                told!(self, trace, path = id.0, number, "packet lost");
                if let Some(qlog) = &mut self.qlog {
                    qlog.lost(now, id, *number);
                }
            }
            found.told = (now, numbers);
        } else if let Some(known) = known.as_ref().filter(|known| known.told.0 == now) {
            found.told = known.told.clone();
        }
        if known.as_ref().is_none_or(|known| known.metrics != found.metrics) {
            let metrics = found.metrics;
            told!(self, trace, path = id.0, ?metrics, "metrics");
            if let Some(qlog) = &mut self.qlog {
                qlog.metrics(now, id, &metrics);
            }
        }
        match at {
            Some(at) => self.known.paths[at] = found,
            None => self.known.paths.push(found),
        }
    }

    /// Forgets paths that no longer exist.
    pub(super) fn keep_paths(&mut self, is_there: impl Fn(PathId) -> bool) {
        self.known.paths.retain(|known| is_there(known.id));
    }

    /// Takes what was recorded since the last call.
    pub(super) fn take_records(&mut self) -> Option<String> {
        self.qlog.as_mut()?.take()
    }

    fn tell(&mut self, now: Time, name: &str, data: std::fmt::Arguments<'_>) {
        if let Some(qlog) = &mut self.qlog {
            qlog.event(now, name, data);
        }
    }
}
