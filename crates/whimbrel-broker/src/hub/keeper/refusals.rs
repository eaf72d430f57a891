//! Refusals, as a client hears of them.

use whimbrel_pubsub::frame::{Refusal, RefusalCode};

use crate::store::MetaError;

/// An error of the database, as a client hears of it.
pub(super) fn refusal(error: &MetaError) -> Refusal {
    let code = match error {
        MetaError::Owner(_) => RefusalCode::NotPermitted,
        MetaError::Outdated { .. } => RefusalCode::Superseded,
        MetaError::TooMany { .. } => RefusalCode::Limit,
        MetaError::Name | MetaError::TooLong { .. } | MetaError::Unknown(_) => RefusalCode::Mistake,
        _ => RefusalCode::Unavailable,
    };
    Refusal::new(code, error)
}

pub(super) fn unavailable(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(RefusalCode::Unavailable, format_args!("this broker cannot keep it now: {why}"))
}
