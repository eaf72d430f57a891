//! The end of a connection: gracefully by FIN, FIN-ACK and FIN-DONE (MMSP 3.3.3), or at once.

use std::time::Duration;

use crate::wire::close::Reason;
use crate::{Cause, Time};

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed it.
    #[error("closed by this side")]
    Local,
    /// The peer closed the connection gracefully, with this code and text.
    #[error("closed by the peer{0}")]
    Peer(Reason),
    /// The peer aborted the connection, with this cause, code and text.
    #[error("aborted by the peer: {0:?}{1}")]
    Aborted(Cause, Reason),
    /// The peer broke the protocol.
    #[error(transparent)]
    PeerMisbehaved(#[from] crate::PeerMisbehaved),
    /// Nothing was heard from the peer for the idle timeout.
    #[error("nothing was heard from the peer for the idle timeout")]
    TimedOut,
    /// The peer no longer knows the connection: it was restarted.
    #[error("the peer was restarted")]
    PeerRestarted,
    /// The handshake was not answered in time.
    #[error(
        "no answer from the peer: check the address, the port, its key, the pre-shared key if it wants one, and that it listens"
    )]
    HandshakeTimedOut,
    /// The peer's key was revoked, or removed from the list of admitted keys.
    #[error("the peer's key is no longer allowed")]
    Revoked,
    /// This side suspended the session. [`Connection::take_suspended`](crate::Connection::take_suspended) returns it.
    #[error("suspended")]
    Suspended,
    /// The peer suspended the session and did not come back within the waiting time.
    #[error("the peer suspended the session and did not resume it in time")]
    WaitExpired,
    /// The peer suspended the session, but too many of its sessions are suspended already.
    #[error("the peer suspended the session, but already has as many suspended as it may")]
    WaitRefused,
    /// The suspended state was resumed before. Each state can be resumed only once.
    #[error("this suspended session has already been resumed")]
    AlreadyResumed,
    /// The peer no longer keeps the suspended session.
    #[error("the suspended session has expired at the peer")]
    ResumeExpired,
    /// The peer has no such session, or it belongs to another key.
    #[error("the peer has no such suspended session for this key")]
    UnknownSession,
    /// The handshake failed.
    #[error("handshake failed: {0}")]
    Handshake(String),
}

/// How far the end of a connection has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) enum Ending {
    #[default]
    Open,
    /// The application closed. The queue drains before FIN is sent.
    Draining { reason: Reason, give_up: Time },
    /// FIN was sent.
    FinSent { reason: Reason, give_up: Time },
    /// FIN was received. The queue drains before FIN-ACK is sent.
    PeerFin { reason: Reason, give_up: Time },
    /// FIN-ACK was sent. FIN-DONE, or an acknowledgement of FIN-ACK, ends the connection.
    FinAckSent { reason: Reason, give_up: Time },
    /// This end is being suspended. `block` holds SUSPEND until the queue is drained; then it is sent, and its answer
    /// awaited. `answered` says whether a SUSPEND of the peer that crossed ours was answered.
    Suspending { give_up: Time, block: Option<Vec<u8>>, answered: bool },
    /// The peer is suspended. Nothing is sent, and the session waits.
    Waiting { until: Time },
    /// The peer has been out of reach for so long that the connection is given up. The session waits, and the client
    /// dials.
    Detached { until: Time },
    /// The connection is over. Packets that still arrive are answered until `until`, then the ids are free.
    Over { until: Time },
}

impl Ending {
    /// A word for the state.
    pub(in crate::connection) fn name(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Draining { .. } => "draining",
            Self::FinSent { .. } => "fin sent",
            Self::PeerFin { .. } => "peer fin",
            Self::FinAckSent { .. } => "fin ack sent",
            Self::Suspending { .. } => "suspending",
            Self::Waiting { .. } => "waiting",
            Self::Detached { .. } => "detached",
            Self::Over { .. } => "over",
        }
    }

    pub(in crate::connection) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    pub(in crate::connection) fn is_over(&self) -> bool {
        matches!(self, Self::Over { .. })
    }

    /// Returns whether the connection carries nothing to or from its session now.
    pub(in crate::connection) fn is_detached(&self) -> bool {
        self.is_over() || self.is_waiting()
    }

    /// Returns whether the session is kept although no connection carries it.
    pub(in crate::connection) fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Detached { .. })
    }

    /// Returns why the peer closes, while its graceful close is under way.
    pub(in crate::connection) fn peer_reason(&self) -> Option<&Reason> {
        match self {
            Self::PeerFin { reason, .. } | Self::FinAckSent { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// Returns the same ending for another connection, on which FIN or FIN-ACK has not been sent yet.
    pub(in crate::connection) fn begin_again(&mut self) -> Self {
        match self {
            Self::Draining { reason, give_up } | Self::FinSent { reason, give_up } => {
                Self::Draining { reason: std::mem::take(reason), give_up: *give_up }
            }
            Self::PeerFin { reason, give_up } | Self::FinAckSent { reason, give_up } => {
                Self::PeerFin { reason: std::mem::take(reason), give_up: *give_up }
            }
            _ => Self::Open,
        }
    }

    /// Handles a close by the application. Returns false if an end is already under way.
    pub(in crate::connection) fn on_close(&mut self, now: Time, reason: Reason, patience: Duration) -> bool {
        let open = self.is_open();
        if open {
            *self = Self::Draining { reason, give_up: now + patience };
        }
        open
    }

    /// Records that the queue is drained. Returns whether FIN or FIN-ACK is to be sent now.
    pub(in crate::connection) fn on_drained(&mut self) -> bool {
        match self {
            Self::Draining { reason, give_up } => {
                *self = Self::FinSent { reason: std::mem::take(reason), give_up: *give_up };
                true
            }
            Self::PeerFin { reason, give_up } => {
                *self = Self::FinAckSent { reason: std::mem::take(reason), give_up: *give_up };
                true
            }
            _ => false,
        }
    }

    /// Handles FIN. Returns whether it changed the state.
    pub(in crate::connection) fn on_fin(&mut self, now: Time, reason: Reason, patience: Duration) -> bool {
        match self {
            Self::Open | Self::Draining { .. } | Self::FinSent { .. } => {
                *self = Self::PeerFin { reason, give_up: now + patience };
                true
            }
            _ => false,
        }
    }

    /// The peer answered for the first time: the close timeout starts now.
    pub(in crate::connection) fn on_established(&mut self, now: Time, patience: Duration) {
        if let Self::Draining { give_up, .. } = self {
            *give_up = now + patience;
        }
    }

    /// Extends the close timeout by the duration of an outage.
    pub(in crate::connection) fn extend(&mut self, outage: Duration) {
        match self {
            Self::Open
            | Self::Over { .. }
            | Self::Suspending { .. }
            | Self::Waiting { .. }
            | Self::Detached { .. } => {}
            Self::Draining { give_up, .. }
            | Self::FinSent { give_up, .. }
            | Self::PeerFin { give_up, .. }
            | Self::FinAckSent { give_up, .. } => *give_up += outage,
        }
    }

    /// Extends the wait of a waiting session to `at_least`.
    pub(in crate::connection) fn wait_until(&mut self, at_least: Time) {
        if let Self::Waiting { until } | Self::Detached { until } = self {
            *until = (*until).max(at_least);
        }
    }

    /// Returns when the close timeout or the wait ends, or the ids are free.
    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        match self {
            Self::Open => None,
            Self::Draining { give_up, .. }
            | Self::FinSent { give_up, .. }
            | Self::PeerFin { give_up, .. }
            | Self::FinAckSent { give_up, .. }
            | Self::Suspending { give_up, .. } => Some(*give_up),
            Self::Waiting { until } | Self::Detached { until } | Self::Over { until } => Some(*until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(1);

    #[test]
    fn the_closer_drains_before_fin() {
        let mut ending = Ending::default();
        assert!(!ending.on_drained(), "nothing was asked");
        assert!(ending.on_close(Time::ZERO, Reason::default(), WAIT));
        assert!(!ending.on_close(Time::ZERO, Reason::default(), WAIT), "once");
        assert!(ending.on_drained());
        assert!(!ending.on_drained(), "once");
        assert!(matches!(ending, Ending::FinSent { .. }) && ending.peer_reason().is_none());
        assert_eq!(ending.timeout(), Some(Time::ZERO + WAIT));
    }

    #[test]
    fn patience_begins_when_the_peer_answers() {
        let later = Time::ZERO + 5 * WAIT;
        let mut ending = Ending::default();
        ending.on_established(later, WAIT);
        assert_eq!(ending, Ending::Open);
        assert!(ending.on_close(Time::ZERO, Reason::default(), WAIT));
        ending.on_established(later, WAIT);
        assert_eq!(ending.timeout(), Some(later + WAIT));
    }

    #[test]
    fn the_other_drains_before_fin_ack_and_a_crossing_fin_is_answered() {
        let mut ending = Ending::default();
        assert!(ending.on_close(Time::ZERO, Reason::default(), WAIT));
        assert!(ending.on_drained());
        assert!(ending.on_fin(Time::ZERO, Reason::new(1, "x"), WAIT));
        assert!(!ending.on_fin(Time::ZERO, Reason::new(2, "y"), WAIT), "a second FIN changes nothing");
        assert_eq!(ending.peer_reason(), Some(&Reason::new(1, "x")));
        assert!(ending.on_drained());
        assert!(matches!(ending, Ending::FinAckSent { .. }));
    }

    #[test]
    fn an_end_under_way_goes_on_over_another_connection() {
        let mut ending = Ending::default();
        assert_eq!(ending.begin_again(), Ending::Open);
        assert!(ending.on_close(Time::ZERO, Reason::new(1, "x"), WAIT));
        assert!(ending.on_drained());
        let mut ending = ending.begin_again();
        assert!(ending.on_drained(), "FIN is due again");
        assert!(matches!(&ending, Ending::FinSent { reason, .. } if reason.code == 1));
        assert!(ending.on_fin(Time::ZERO, Reason::new(2, "y"), WAIT) && ending.on_drained());
        assert!(ending.begin_again().on_drained(), "FIN-ACK is due again");
        assert_eq!(Ending::Detached { until: Time::ZERO }.begin_again(), Ending::Open);
    }
}
