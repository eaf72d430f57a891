//! What paths may cost, and who decides.

/// What the cost of paths means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CostPolicy {
    /// Nothing.
    Ignore,
    /// A path that costs more carries nothing while one that costs less works.
    #[default]
    CheapFirst,
    /// As `CheapFirst`, and a path that costs more than this carries no data at all.
    NeverAbove(u32),
    /// A path that costs anything carries data only once the application allowed it: [`Event::PathCostAsked`](crate::Event::PathCostAsked),
    /// [`Connection::allow_path`](crate::Connection::allow_path).
    Ask,
}

/// What the application said of a path that costs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::connection) enum Consent {
    #[default]
    Unasked,
    Asked,
    Given,
    Refused,
}
