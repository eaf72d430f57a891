//! Reports of a connection's life: handshake, keys, and the end.

use std::net::SocketAddr;

use super::observer::Observer;
use super::record_fields::Perhaps;
use super::report::report;
use crate::connection::lifecycle::close::CloseReason;
use crate::crypto::PublicKey;
use crate::wire::close::Reason;
use crate::{Cause, PathId, PeerText, Time};

/// The current state of the connection.
pub(super) struct Lifecycle<'a> {
    pub(super) established: bool,
    pub(super) proven: bool,
    pub(super) ending: &'static str,
    pub(super) key_updates: u64,
    pub(super) main: PathId,
    pub(super) peer: Option<PublicKey>,
    pub(super) protocol: &'a [u8],
    pub(super) remote: SocketAddr,
}

impl Observer {
    /// Reports changes of the connection's state since the last call.
    pub(super) fn look_at_lifecycle(&mut self, now: Time, found: &Lifecycle<'_>) {
        let (established, proven) = (found.established, found.proven);
        if (established, proven) != (self.known.is_established, self.known.is_proven) {
            let connects = proven && !self.known.is_proven;
            (self.known.is_established, self.known.is_proven) = (established, proven);
            report!(
                self,
                now,
                debug,
                "whimbrel::connection",
                "handshake went on",
                "whimbrel:handshake_updated",
                established = established,
                proven = proven
            );
            if connects {
                self.report_connected(now, found);
            }
        }
        if found.ending != self.known.ending {
            let old = std::mem::replace(&mut self.known.ending, found.ending);
            report!(
                self,
                now,
                debug,
                "whimbrel::connection",
                "lifecycle changed",
                "whimbrel:lifecycle_updated",
                old = old,
                new = found.ending
            );
        }
        let cause = self.causes.key_update.take();
        if found.key_updates != self.known.key_updates {
            self.known.key_updates = found.key_updates;
            report!(
                self,
                now,
                debug,
                "whimbrel::keys",
                "packet keys updated",
                "whimbrel:key_updated",
                generation = found.key_updates,
                reason = cause.unwrap_or("the peer began it")
            );
        }
        self.look_at_primary(now, found.main);
    }

    fn report_connected(&mut self, now: Time, found: &Lifecycle<'_>) {
        report!(
            self, now, info, "whimbrel::connection", "connected", "whimbrel:connected";
            peer = Perhaps(found.peer), remote = found.remote,
            protocol = PeerText::show(&String::from_utf8_lossy(found.protocol))
        );
    }

    /// Reports a packet of the handshake that this end sends anew: PING.
    pub(in crate::connection) fn on_ping(&mut self, now: Time, by_ticket: bool, early: bool) {
        report!(
            self,
            now,
            debug,
            "whimbrel::keys",
            "PING made",
            "whimbrel:ping_made",
            reason = if by_ticket { "a ticket is at hand" } else { "a cookie came" },
            early = early
        );
    }

    /// Reports a packet of the handshake that was dropped.
    pub(in crate::connection) fn on_handshake_dropped(
        &mut self,
        now: Time,
        from: SocketAddr,
        reason: impl std::fmt::Display,
    ) {
        report!(
            self, now, debug, "whimbrel::keys", "handshake packet dropped", "whimbrel:handshake_dropped";
            from = from, reason = reason
        );
    }

    /// Reports a graceful close that has begun.
    pub(in crate::connection) fn on_closing(&mut self, now: Time, by: &'static str, reason: &Reason) {
        report!(
            self, now, info, "whimbrel::connection", "closing: what is queued is delivered first",
            "whimbrel:closing", by = by, code = reason.code; text = reason.text
        );
    }

    /// Reports the end. `told` is what the peer is told, if it is told something.
    pub(in crate::connection) fn on_closed(
        &mut self,
        now: Time,
        why: &CloseReason,
        told: Option<&(Cause, Reason)>,
    ) {
        let (owner, code) = match why {
            CloseReason::Peer(reason) | CloseReason::Aborted(_, reason) => ("remote", reason.code),
            _ => ("local", told.map_or(0, |(_, reason)| reason.code)),
        };
        let told = told.map(|(cause, reason)| CauseText(*cause, reason));
        report!(
            self, now, info, "whimbrel::connection", "closed", "connectivity:connection_closed",
            owner = owner, code = code; reason = why, told = Perhaps(told.as_ref())
        );
    }

    /// Reports that a key is no longer admitted.
    pub(in crate::connection) fn on_revoked(&mut self, now: Time, key: &PublicKey) {
        report!(
            self, now, info, "whimbrel::connection", "key revoked", "whimbrel:key_revoked",
            reason = "the listener admits it no longer"; key = key
        );
    }

    /// Reports a stateless reset of the peer, and what state it met.
    pub(in crate::connection) fn on_reset_received(&mut self, now: Time, state: &'static str) {
        report!(
            self,
            now,
            info,
            "whimbrel::connection",
            "the peer knows this connection no longer",
            "whimbrel:reset_received",
            reason = "a stateless reset came",
            state = state
        );
    }
}

/// The words to the peer: the cause, the application's code and the text, which is escaped.
struct CauseText<'a>(Cause, &'a Reason);

impl std::fmt::Display for CauseText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}{}", self.0, self.1)
    }
}
