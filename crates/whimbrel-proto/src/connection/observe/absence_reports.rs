//! Reports of sessions that leave their connection: suspended, resumed, given up, dialled for and reattached.

use std::net::SocketAddr;
use std::time::Duration;

use super::observer::Observer;
use super::record_fields::Perhaps;
use super::report::report;
use crate::crypto::PublicKey;
use crate::handshake::Resumed;
use crate::{ConnectionId, Time};

impl Observer {
    /// Reports that this end begins to suspend the session.
    pub(in crate::connection) fn on_suspending(
        &mut self,
        now: Time,
        mode: &'static str,
        heir: Option<&PublicKey>,
    ) {
        report!(
            self, now, info, "whimbrel::session", "suspending", "whimbrel:suspending", mode = mode;
            heir = Perhaps(heir)
        );
    }

    /// Reports that the session has become bytes.
    pub(in crate::connection) fn on_suspended(
        &mut self,
        now: Time,
        bytes: usize,
        peer_waits: Option<Duration>,
    ) {
        let reason = if peer_waits.is_some() { "the peer waits" } else { "the peer did not answer" };
        let wait_s = peer_waits.map_or(0, |wait| wait.as_secs());
        report!(
            self,
            now,
            info,
            "whimbrel::session",
            "suspended",
            "whimbrel:suspended",
            bytes = bytes as u64,
            peer_waits_s = wait_s,
            reason = reason
        );
    }

    /// Reports that the peer suspends its end.
    pub(in crate::connection) fn on_peer_suspends(&mut self, now: Time, heir: Option<&PublicKey>) {
        report!(
            self, now, info, "whimbrel::session", "the peer suspends its end", "whimbrel:peer_suspends";
            heir = Perhaps(heir)
        );
    }

    /// Reports whether the session may wait for its peer.
    pub(in crate::connection) fn on_wait(&mut self, now: Time, granted: bool, reason: &'static str) {
        report!(
            self,
            now,
            info,
            "whimbrel::session",
            "the session waits for its peer",
            "whimbrel:wait",
            granted = granted,
            reason = reason
        );
    }

    /// Reports a request to carry the session on over another connection, and the answer.
    pub(in crate::connection) fn on_resume_asked(
        &mut self,
        now: Time,
        client: &PublicKey,
        from: SocketAddr,
        answer: Resumed,
    ) {
        let reason = match answer {
            Resumed::Yes => "the claim is proven",
            Resumed::Already => "this state was resumed before",
            Resumed::Expired => "the session is over",
            Resumed::Unknown => "the claim is not proven, or is another key's",
        };
        report!(
            self, now, info, "whimbrel::session", "the peer asks to resume", "whimbrel:resume_asked",
            granted = answer == Resumed::Yes, reason = reason; client = client, from = from
        );
    }

    /// Reports a request to resume that was not even answered.
    pub(in crate::connection) fn on_resume_ignored(&mut self, now: Time, reason: &'static str) {
        report!(
            self,
            now,
            info,
            "whimbrel::session",
            "resumption refused",
            "whimbrel:resume_ignored",
            reason = reason
        );
    }

    /// Reports that a connection that was granted never carried a packet.
    pub(in crate::connection) fn on_grant_expired(&mut self, now: Time, id: ConnectionId) {
        report!(
            self, now, debug, "whimbrel::session", "a granted connection was never used",
            "whimbrel:grant_expired"; connection = format_args!("{id:?}")
        );
    }

    /// Reports the server's consent to resume.
    pub(in crate::connection) fn on_resumed(&mut self, now: Time) {
        report!(
            self,
            now,
            info,
            "whimbrel::session",
            "resumed",
            "whimbrel:resumed",
            reason = "the peer accepted the claim"
        );
    }

    /// Reports that the connection is given up and its session kept.
    pub(in crate::connection) fn on_detached(&mut self, now: Time, reason: &'static str, keep: Duration) {
        report!(
            self,
            now,
            info,
            "whimbrel::session",
            "detached: the session is kept without a connection",
            "whimbrel:detached",
            reason = reason,
            keep_s = keep.as_secs()
        );
    }

    /// Reports that the peer is dialled over this many pairs of addresses.
    pub(in crate::connection) fn on_dialling(&mut self, now: Time, id: ConnectionId, ways: usize) {
        report!(
            self, now, info, "whimbrel::session", "dialling the peer", "whimbrel:dialling", ways = ways as u64;
            connection = format_args!("{id:?}")
        );
    }

    /// Reports that the session goes on over another connection.
    pub(in crate::connection) fn on_attached(
        &mut self,
        now: Time,
        reason: &'static str,
        [before, after]: [ConnectionId; 2],
        [from, to]: [SocketAddr; 2],
    ) {
        report!(
            self, now, info, "whimbrel::session", "reattached: the session goes on over another connection",
            "whimbrel:reattached", reason = reason;
            connection = format_args!("{after:?}"), before = format_args!("{before:?}"), from = from, to = to
        );
    }

    /// Reports that the session goes on over the connection that was given up.
    pub(in crate::connection) fn on_revived(&mut self, now: Time) {
        report!(
            self,
            now,
            info,
            "whimbrel::session",
            "reattached: the session goes on over its old connection",
            "whimbrel:revived",
            reason = "a packet of it arrived"
        );
    }
}
