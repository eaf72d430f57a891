//! The events of `tracing` by which an endpoint reports whom it answers, and why not. Without the feature they are
//! empty.
//!
//! Strangers cause most of them, so they have low levels. Limits that an operator should know of are warnings, at most
//! one of a kind in [`PAUSE`]: a flood must not fill a log.

use std::fmt::Display;
use std::net::SocketAddr;
#[cfg(feature = "tracing")]
use std::time::Duration;

use crate::crypto::PublicKey;
use crate::{ConnectionId, PeerText, Time};

/// The least time between two warnings of one kind.
#[cfg(feature = "tracing")]
const PAUSE: Duration = Duration::from_secs(10);

/// Emits an event about the endpoint, if the feature is enabled. Its arguments are evaluated only if somebody listens.
macro_rules! told {
    ($level:ident, $message:literal $(, $key:ident = $value:expr)* $(; $($text:ident = $shown:expr),+)?) => {
        #[cfg(feature = "tracing")]
        tracing::$level!(target: "whimbrel::endpoint", $($key = $value,)* $($($text = %$shown,)+)? $message);
        // Never called: it only shows that the arguments are used.
        #[cfg(not(feature = "tracing"))]
        let _ = || {
            $(std::convert::identity(&$value);)*
            $($(std::convert::identity(&$shown);)+)?
        };
    };
}

/// A limit on strangers or clients that an operator may want to raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// SYNs answered a second.
    Syns,
    /// Key agreements a second, for everybody, for strangers, or for one network or ticket.
    Agreements,
    /// Connections of the listener.
    Connections,
    /// Connections of one key.
    Key,
    /// Connections of one network.
    Network,
    /// Sessions that may wait for their peers.
    Waiting,
}

impl Limit {
    #[cfg(feature = "tracing")]
    const ALL: usize = 6;

    /// The settings that set it.
    #[cfg(feature = "tracing")]
    const fn setting(self) -> &'static str {
        match self {
            Self::Syns => "syns_per_second",
            Self::Agreements => "handshakes_per_second, pings_per_address",
            Self::Connections => "max_connections",
            Self::Key => "max_per_key",
            Self::Network => "network_share",
            Self::Waiting => "max_waiting, max_waiting_bytes, max_connections",
        }
    }
}

/// The warnings given lately; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Told {
    #[cfg(feature = "tracing")]
    warned: [Warned; Limit::ALL],
}

/// When a kind of warning was last given, and how often it would have been given since.
#[cfg(feature = "tracing")]
#[derive(Clone, Copy, Debug, Default)]
struct Warned {
    last: Option<Time>,
    times: u64,
}

impl Told {
    /// Warns that a limit keeps somebody out.
    pub(super) fn on_limit(&mut self, now: Time, limit: Limit, from: Option<SocketAddr>) {
        #[cfg(feature = "tracing")]
        {
            let warned = &mut self.warned[limit as usize];
            warned.times += 1;
            if warned.last.is_some_and(|last| now.since(last) < PAUSE) {
                return;
            }
            let times = std::mem::take(&mut warned.times);
            warned.last = Some(now);
            let from = from.map(tracing::field::display);
            let setting = limit.setting();
            tracing::warn!(target: "whimbrel::endpoint", setting, times, from, "a limit is reached");
        }
        #[cfg(not(feature = "tracing"))]
        let _ = (now, limit, from);
    }
}

pub(super) fn syn_refused(from: SocketAddr, reason: impl Display) {
    told!(debug, "SYN refused"; from = from, reason = reason);
}

pub(super) fn cookie_sent(from: SocketAddr) {
    told!(debug, "cookie sent"; from = from);
}

pub(super) fn ping_refused(from: SocketAddr, reason: impl Display) {
    told!(debug, "PING refused"; from = from, reason = reason);
}

pub(super) fn ticket_declined(from: SocketAddr, reason: impl Display) {
    told!(debug, "ticket declined"; from = from, reason = reason);
}

/// A client whose key is proven is kept out by settings, which a person may have got wrong.
pub(super) fn client_refused(from: SocketAddr, client: &PublicKey, reason: &'static str, protocol: &[u8]) {
    told!(info, "client refused", reason = reason;
        from = from, client = client, protocol = PeerText::show(&String::from_utf8_lossy(protocol)));
}

pub(super) fn client_accepted(from: SocketAddr, client: &PublicKey, id: ConnectionId) {
    told!(debug, "client accepted"; connection = format_args!("{id:?}"), from = from, client = client);
}

/// A client that missed every PONG began its session again.
pub(super) fn session_begun_again(from: SocketAddr, id: ConnectionId) {
    told!(debug, "a second PING belongs to a session that has begun"; connection = format_args!("{id:?}"), from = from);
}

pub(super) fn resume_refused(from: SocketAddr, client: &PublicKey, reason: &'static str) {
    told!(info, "resumption refused", reason = reason; from = from, client = client);
}

pub(super) fn reset_sent(id: ConnectionId) {
    told!(debug, "stateless reset sent", reason = "no connection has this id"; connection = format_args!("{id:?}"));
}

pub(super) fn reset_held_back(id: ConnectionId, reason: &'static str) {
    told!(trace, "no stateless reset", reason = reason; connection = format_args!("{id:?}"));
}

pub(super) fn key_revoked(key: &PublicKey) {
    told!(info, "key revoked"; key = key);
}

pub(super) fn key_allowed(key: &PublicKey) {
    told!(info, "key allowed"; key = key);
}

/// `allowed`: the number of keys on the new list; `None`: any key may connect.
pub(super) fn list_replaced(allowed: Option<usize>) {
    told!(
        info,
        "list of allowed keys replaced",
        keys = allowed.map(|keys| keys as u64),
        open = allowed.is_none()
    );
}

pub(super) fn connection_forgotten(id: ConnectionId) {
    told!(debug, "connection forgotten"; connection = format_args!("{id:?}"));
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "tracing")]
    use super::*;

    #[cfg(feature = "tracing")]
    #[test]
    fn a_flood_is_counted_and_warned_of_once_in_a_while() {
        let mut told = Told::default();
        for tick in 0..1_000 {
            told.on_limit(Time::ZERO + PAUSE * tick / 1_000, Limit::Syns, None);
        }
        let left_out = |told: &Told| told.warned[Limit::Syns as usize].times;
        assert_eq!(left_out(&told), 999);
        told.on_limit(Time::ZERO + PAUSE, Limit::Syns, None);
        assert_eq!(left_out(&told), 0, "they were told of");
        assert_eq!(told.warned[Limit::Key as usize].last, None, "another kind");
    }
}
