//! Faults planted on purpose: a checker that does not find these would not find others.
//!
//! They exist only with the feature `mutants`. Even then only the fault given to [`plant`] is active, and only on its
//! thread.

/// A fault, named by what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
#[cfg_attr(not(feature = "mutants"), allow(unreachable_pub, reason = "not part of the library then"))]
pub enum Mutant {
    CoverOverGap,
    CoverOverDropped,
    SentToOneAhead,
    OverwrittenCountsAsNotHere,
    UnknownToldAsGone,
    EpochReused,
    TailReadBeforePositionMoved,
    RepeatedTakenAfterFailOver,
    RepeatedTakenHere,
    LateNotDelivered,
    ExpiredDelivered,
    GoneCountedOnce,
    RetainedByArrival,
    FilledOverwritesNew,
    LostWithoutAllPeers,
    OneCopyCountsTwice,
    SegmentDroppedTooEarly,
    OlderGenerationWins,
    RivalsStay,
    TiesStay,
}

#[cfg(feature = "mutants")]
mod planting {
    use std::cell::Cell;

    use super::Mutant;

    impl Mutant {
        /// All faults for the checker.
        pub const ALL: [Self; 20] = [
            Self::CoverOverGap,
            Self::CoverOverDropped,
            Self::SentToOneAhead,
            Self::OverwrittenCountsAsNotHere,
            Self::UnknownToldAsGone,
            Self::EpochReused,
            Self::TailReadBeforePositionMoved,
            Self::RepeatedTakenAfterFailOver,
            Self::RepeatedTakenHere,
            Self::LateNotDelivered,
            Self::ExpiredDelivered,
            Self::GoneCountedOnce,
            Self::RetainedByArrival,
            Self::FilledOverwritesNew,
            Self::LostWithoutAllPeers,
            Self::OneCopyCountsTwice,
            Self::SegmentDroppedTooEarly,
            Self::OlderGenerationWins,
            Self::RivalsStay,
            Self::TiesStay,
        ];
    }

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Makes this fault active on this thread, or none.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.set(mutant);
    }

    pub(crate) fn planted(mutant: Mutant) -> bool {
        PLANTED.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub use planting::plant;
#[cfg(feature = "mutants")]
pub(crate) use planting::planted;

/// Without the feature no fault is ever active.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn planted(_: Mutant) -> bool {
    false
}
