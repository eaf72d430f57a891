//! Why a path changed its state, in words for people.

use crate::connection::paths::path_state::PathState;

/// The reason for a change of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum PathCause {
    /// The path of the handshake.
    Handshake,
    Opened,
    OpenedByPeer,
    /// The remote address answered a challenge.
    Validated,
    /// Packets are overdue, and another path works.
    Overdue,
    Unanswered,
    Heard,
    /// The application holds it in reserve, or does so no longer.
    Preference,
    ClosedByApplication,
    ClosedByPeer,
    InterfaceGone,
    /// The peer withdrew the address.
    AddressWithdrawn,
    ChallengeFailed,
    /// The peer had forgotten a path that was taken into use again.
    ForgottenByPeer,
    Reopened,
    Rebinding,
    /// The peer is where it was before it seemed to move: somebody relayed its packets.
    NotMoved,
    /// The pair of addresses did not answer, and another is tried.
    AimedElsewhere,
    Unknown,
}

impl PathCause {
    /// Returns the cause that two states show by themselves.
    pub(super) fn shown(old: Option<PathState>, new: PathState, moved: bool) -> Self {
        use PathState::{Active, Closed, Down, Opening, Standby, Suspect};
        match (old, new) {
            (None, Opening) => Self::Opened,
            (None, _) => Self::Handshake,
            (Some(Opening), Active | Standby) => Self::Validated,
            (Some(Suspect | Down), Active | Standby) => Self::Heard,
            (Some(Closed), Active | Standby) => Self::Reopened,
            (Some(Active), Standby) | (Some(Standby), Active) => Self::Preference,
            (_, Suspect) => Self::Overdue,
            (_, Down) => Self::Unanswered,
            _ if moved => Self::Rebinding,
            _ => Self::Unknown,
        }
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Handshake => "the handshake used it",
            Self::Opened => "opened by this end",
            Self::OpenedByPeer => "opened by the peer",
            Self::Validated => "the peer answered the challenge",
            Self::Overdue => "packets are overdue and another path works",
            Self::Unanswered => "three probes were not answered",
            Self::Heard => "the peer answers again",
            Self::Preference => "the application changed its use",
            Self::ClosedByApplication => "the application closed it",
            Self::ClosedByPeer => "the peer closed it",
            Self::InterfaceGone => "the local address is gone",
            Self::AddressWithdrawn => "the peer withdrew the address",
            Self::ChallengeFailed => "the challenge was not answered",
            Self::ForgottenByPeer => "the peer had closed it already",
            Self::Reopened => "the peer goes on here and no other path works",
            Self::Rebinding => "the peer answered from a new address",
            Self::NotMoved => "the peer is still at its former address",
            Self::AimedElsewhere => "no path works, so another pair of addresses is tried",
            Self::Unknown => "unknown",
        }
    }
}
