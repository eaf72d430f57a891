//! Reports what the connection does to observers: as `tracing` events, and as a qlog recording.
//!
//! States are not reported where they change. After each step of the connection, the observer compares the current state
//! with the state it saw before. What a state does not show is told where it happens: a reason ([`Causes`]), or a step
//! of the session's life. Without an observer, each of these costs one check for None.
//!
//! Levels of events: `warn` needs an operator; `info` is a session's life as a person sees it; `debug` is paths, keys,
//! congestion control and streams; `trace` is each packet.

use std::net::SocketAddr;

use super::path_cause::PathCause;
use super::path_reports::KnownPath;
use super::primary_cause::PrimaryCause;
use super::qlog::{Frames, Packet, Qlog};
use super::report::{report, told};
use crate::connection::packet::sent_block::SentBlock;
use crate::wire::sack::Sack;
use crate::{ConnectionId, PathId, Side, Time};

/// Observes one connection. See the module documentation.
pub(in crate::connection) struct Observer {
    pub(super) qlog: Option<Qlog>,
    #[cfg(feature = "tracing")]
    pub(super) span: tracing::Span,
    pub(super) known: LastSeen,
    pub(super) causes: Causes,
    /// Frames of the packet that is being parsed, as JSON.
    frames: Frames,
}

/// The state seen last.
#[derive(Default)]
pub(super) struct LastSeen {
    pub(super) is_established: bool,
    pub(super) is_proven: bool,
    pub(super) ending: &'static str,
    pub(super) key_updates: u64,
    pub(super) main: Option<PathId>,
    pub(super) paths: Vec<KnownPath>,
}

/// Reasons noted since the observer last looked. The first counts, since later ones may follow from it.
#[derive(Default)]
pub(super) struct Causes {
    pub(super) paths: Vec<(PathId, PathCause)>,
    pub(super) primary: Option<PrimaryCause>,
    pub(super) key_update: Option<&'static str>,
}

impl Observer {
    /// Creates an observer. Returns None if neither a recording nor `tracing` wants events.
    pub(in crate::connection) fn wanted(
        now: Time,
        side: Side,
        id: ConnectionId,
        qlog: bool,
    ) -> Option<Box<Self>> {
        // Of the highest level, so that events of any level that somebody listens to are within it.
        #[cfg(feature = "tracing")]
        let span = tracing::error_span!(
            target: "whimbrel", "connection", id = %format_args!("{:016x}", id.0), side = ?side
        );
        #[cfg(feature = "tracing")]
        let is_looked_at = !span.is_disabled();
        #[cfg(not(feature = "tracing"))]
        let is_looked_at = false;
        (qlog || is_looked_at).then(|| {
            Box::new(Self {
                qlog: qlog.then(|| Qlog::new(now, side, id)),
                #[cfg(feature = "tracing")]
                span,
                known: LastSeen { ending: "open", ..LastSeen::default() },
                causes: Causes::default(),
                frames: Frames::default(),
            })
        })
    }

    /// Returns the observer of a session that goes on over another connection. The recording goes on, and the state of
    /// the former connection is forgotten.
    pub(in crate::connection) fn succeed(
        before: Option<Box<Self>>,
        fresh: Option<Box<Self>>,
    ) -> Option<Box<Self>> {
        let Some(mut before) = before else { return fresh };
        #[cfg(feature = "tracing")]
        if let Some(fresh) = fresh {
            before.span = fresh.span;
        }
        #[cfg(not(feature = "tracing"))]
        drop(fresh);
        before.known = LastSeen { ending: before.known.ending, ..LastSeen::default() };
        before.causes = Causes::default();
        Some(before)
    }

    pub(in crate::connection) fn on_started(
        &mut self,
        now: Time,
        local: Option<std::net::IpAddr>,
        remote: SocketAddr,
    ) {
        told!(self, debug, "whimbrel::connection", %remote, "connection started");
        if let Some(qlog) = &mut self.qlog {
            qlog.started(now, local, remote);
        }
    }

    /// Notes why a path is about to change.
    pub(in crate::connection) fn note_path(&mut self, path: PathId, cause: PathCause) {
        if self.causes.paths.iter().all(|(noted, _)| *noted != path) {
            self.causes.paths.push((path, cause));
        }
    }

    /// Notes why the primary path is about to change.
    pub(in crate::connection) fn note_primary(&mut self, cause: PrimaryCause) {
        self.causes.primary.get_or_insert(cause);
    }

    /// Notes why the packet keys are about to be updated. Unless it was noted, the peer began it.
    pub(in crate::connection) fn note_key_update(&mut self, cause: &'static str) {
        self.causes.key_update = Some(cause);
    }

    pub(in crate::connection) fn on_packet_sent(
        &mut self,
        now: Time,
        path: PathId,
        number: u64,
        size: usize,
        blocks: &[SentBlock],
    ) {
        told!(self, trace, "whimbrel::packet", path = path.0, number, size, ?blocks, "packet sent");
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
        told!(self, trace, "whimbrel::packet", path = path.0, number, size, "packet received");
        if let Some(qlog) = &mut self.qlog {
            let frames = self.frames.end();
            qlog.packet(now, "transport:packet_received", &Packet { path, number, size, frames });
        }
        self.frames.clear();
    }

    /// Reports a packet that did not open. It may be forged, or under keys that are gone.
    pub(in crate::connection) fn on_packet_unopened(&mut self, now: Time, path: PathId, size: usize) {
        report!(
            self,
            now,
            trace,
            "whimbrel::packet",
            "packet dropped",
            "whimbrel:packet_dropped",
            path = path.0,
            size = size as u64,
            reason = "it does not open"
        );
    }

    /// Takes what was recorded since the last call.
    pub(super) fn take_records(&mut self) -> Option<String> {
        self.qlog.as_mut()?.take()
    }
}
