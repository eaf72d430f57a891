//! Why a flow is not opened.

use crate::protocol::Outcome;

/// A flow that could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The far end answered so.
    #[error("{0}")]
    ByPeer(Outcome),
    /// This proxy could not connect by itself.
    #[error("not carried, by a rule: {}", direct(*.0))]
    Direct(Outcome),
    /// A rule of this proxy does not allow it.
    #[error("a rule of this proxy does not allow it")]
    ByRule,
    /// The session is over, or was not there in time.
    #[error("the peer is not connected")]
    NoSession,
    /// This proxy has as many flows as it may have.
    #[error("this proxy has too many flows")]
    Limit,
    /// The program has closed its connection, or it was reset.
    #[error("the program gave up")]
    ProgramGone,
    /// The peer's answer makes no sense.
    #[error("the peer broke the protocol of the proxy")]
    Malformed,
}

impl Refused {
    /// Returns the outcome that comes closest.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::ByPeer(outcome) | Self::Direct(outcome) => outcome,
            Self::ByRule => Outcome::Denied,
            Self::NoSession => Outcome::NetworkUnreachable,
            Self::Limit => Outcome::Limit,
            Self::ProgramGone | Self::Malformed => Outcome::Failed,
        }
    }
}

fn direct(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NameNotFound => "the name was not found",
        Outcome::Failed | Outcome::Limit | Outcome::Denied | Outcome::Connected => "connecting failed",
        Outcome::Refused => "the target refused the connection",
        Outcome::HostUnreachable => "the target's host is unreachable",
        Outcome::NetworkUnreachable => "the target's network is unreachable",
        Outcome::TimedOut => "the target did not answer",
    }
}
