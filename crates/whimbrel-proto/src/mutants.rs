//! Faults planted on purpose: a checker that does not find these would not find others.
//!
//! They exist only with the feature `mutants`. Even then only the fault given to [`plant`] is active, and only on its
//! thread.

/// A fault, named by what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
#[cfg_attr(not(feature = "mutants"), allow(unreachable_pub, reason = "not part of the library then"))]
pub enum Mutant {
    AcknowledgementDropped,
    PacketNumberReused,
    SkippedCreditLeaked,
    CreditNeverReturned,
    CreditIgnored,
    SkipNotAnswered,
    DuplicateDelivered,
    FragmentOffByOne,
    RetransmissionForgotten,
    KeyPhaseNotFollowed,
    SequencedOvertakes,
    FinBeforeDrained,
    ReplacedStillSent,
    LifetimeEndsWhenSent,
    ResetSentOnce,
    StreamEndSentOnce,
    DeliveredBeforeWhole,
    LateCountsAsDelivered,
    DataBeforeChallenge,
    SackOfAnotherPath,
    UnseenAcknowledged,
    UrgentCopyDelivered,
    ResumedMessageDropped,
    ResumedMessageTwice,
    ResumedAgain,
    /// Not in [`Mutant::ALL`]; it is for the fuzz targets of the parsers.
    SackBelowZero,
}

#[cfg(feature = "mutants")]
mod planting {
    use std::cell::Cell;

    use super::Mutant;

    impl Mutant {
        /// All faults for the checker.
        pub const ALL: [Self; 25] = [
            Self::AcknowledgementDropped,
            Self::PacketNumberReused,
            Self::SkippedCreditLeaked,
            Self::CreditNeverReturned,
            Self::CreditIgnored,
            Self::SkipNotAnswered,
            Self::DuplicateDelivered,
            Self::FragmentOffByOne,
            Self::RetransmissionForgotten,
            Self::KeyPhaseNotFollowed,
            Self::SequencedOvertakes,
            Self::FinBeforeDrained,
            Self::ReplacedStillSent,
            Self::LifetimeEndsWhenSent,
            Self::ResetSentOnce,
            Self::StreamEndSentOnce,
            Self::DeliveredBeforeWhole,
            Self::LateCountsAsDelivered,
            Self::DataBeforeChallenge,
            Self::SackOfAnotherPath,
            Self::UnseenAcknowledged,
            Self::UrgentCopyDelivered,
            Self::ResumedMessageDropped,
            Self::ResumedMessageTwice,
            Self::ResumedAgain,
        ];
    }

    thread_local! {
        static PLANTED: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Plants a fault on this thread, or removes it.
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

/// Always false, so the compiler removes the fault.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub(crate) const fn planted(_: Mutant) -> bool {
    false
}
