//! Ends of a connection: FIN, FIN-ACK, FIN-DONE (MMSP 3.3.3), or at once.

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
    /// The peer closed it politely; its code and words.
    #[error("closed by the peer{0}")]
    Peer(Reason),
    /// The peer aborted; its cause, code and words.
    #[error("aborted by the peer: {0:?}{1}")]
    Aborted(Cause, Reason),
    /// The peer broke the protocol.
    #[error(transparent)]
    PeerMisbehaved(#[from] crate::PeerMisbehaved),
    /// Nothing was heard for the idle timeout.
    #[error("nothing was heard from the peer for the idle timeout")]
    TimedOut,
    /// The peer does not know the connection any more: it was restarted.
    #[error("the peer was restarted")]
    PeerRestarted,
    /// The handshake was not answered in time.
    #[error(
        "no answer from the peer: check the address, the port, its key, the pre-shared key if it wants one, and that it listens"
    )]
    HandshakeTimedOut,
    /// The peer's key was taken off the list here, or revoked: it is not let in any more.
    #[error("the peer's key is not let in any more")]
    Revoked,
    /// This side suspended the session: [`crate::Connection::take_suspended`] has it.
    #[error("suspended")]
    Suspended,
    /// The peer suspended the session and did not come back within the waiting time.
    #[error("the peer suspended the session and did not resume it in time")]
    WaitExpired,
    /// The peer wanted to suspend the session, and too many of its sessions are suspended already.
    #[error("the peer suspended the session, and may not have so many suspended")]
    WaitRefused,
    /// The suspended state was resumed before: of one state there is one resumption.
    #[error("this suspended session was resumed before")]
    AlreadyResumed,
    /// The peer has given the suspended session up.
    #[error("the peer did not keep the suspended session for so long")]
    ResumeExpired,
    /// The peer has no such session, or it is not this key's.
    #[error("the peer knows no such suspended session of this key")]
    UnknownSession,
    /// The handshake failed.
    #[error("handshake failed: {0}")]
    Handshake(String),
}

/// How far the end has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::connection) enum Ending {
    #[default]
    Open,
    /// The application closed; the queue drains before FIN.
    Draining { reason: Reason, give_up: Time },
    /// FIN is out.
    FinSent { reason: Reason, give_up: Time },
    /// FIN was received; the queue drains before FIN-ACK.
    PeerFin { reason: Reason, give_up: Time },
    /// FIN-ACK is out; FIN-DONE or its acknowledgement ends it.
    FinAckSent { reason: Reason, give_up: Time },
    /// This end is being suspended; SUSPEND goes out once the queue is drained (while it is still here) and is then waited for. The peer's,
    /// if it crosses ours, is `answered` once.
    Suspending { give_up: Time, block: Option<Vec<u8>>, answered: bool },
    /// The peer is suspended: nothing is sent, the session waits.
    Waiting { until: Time },
    /// The peer is out of reach for so long that the connection is given up: the session waits, and the client dials.
    Detached { until: Time },
    /// Over: packets that still come are answered for a while (`until`), then the ids are free.
    Over { until: Time },
}

impl Ending {
    pub(in crate::connection) fn is_open(&self) -> bool {
        *self == Self::Open
    }

    pub(in crate::connection) fn is_over(&self) -> bool {
        matches!(self, Self::Over { .. })
    }

    /// Nothing goes to or from the session now.
    pub(in crate::connection) fn is_detached(&self) -> bool {
        self.is_over() || self.is_waiting()
    }

    /// The session is attached to nothing now, and wanted.
    pub(in crate::connection) fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::Detached { .. })
    }

    /// The same end over another connection, which has heard nothing of it.
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

    /// The application closes. False if an end is under way already.
    pub(in crate::connection) fn on_close(&mut self, now: Time, reason: Reason, patience: Duration) -> bool {
        let open = self.is_open();
        if open {
            *self = Self::Draining { reason, give_up: now + patience };
        }
        open
    }

    /// The queue is drained. True if FIN or FIN-ACK is to be sent now.
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

    /// FIN came.
    pub(in crate::connection) fn on_fin(&mut self, now: Time, reason: Reason, patience: Duration) -> bool {
        match self {
            Self::Open | Self::Draining { .. } | Self::FinSent { .. } => {
                *self = Self::PeerFin { reason, give_up: now + patience };
                true
            }
            _ => false,
        }
    }

    /// The peer answered for the first time: patience begins now.
    pub(in crate::connection) fn on_established(&mut self, now: Time, patience: Duration) {
        if let Self::Draining { give_up, .. } = self {
            *give_up = now + patience;
        }
    }

    /// For so long the peer could not be reached: patience lasts as much longer.
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

    /// Who waits does so until then at least.
    pub(in crate::connection) fn wait_until(&mut self, at_least: Time) {
        if let Self::Waiting { until } | Self::Detached { until } = self {
            *until = (*until).max(at_least);
        }
    }

    /// When patience ends, or the ids are free.
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
        assert!(matches!(ending, Ending::FinSent { .. }));
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
        assert!(!ending.on_fin(Time::ZERO, Reason::new(1, "x"), WAIT), "a repeated FIN changes nothing");
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
