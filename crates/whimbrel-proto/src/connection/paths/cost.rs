//! The cost of paths, and the policy for it.

/// How the cost of paths is taken into account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CostPolicy {
    /// Costs are ignored.
    Ignore,
    /// A path that costs more carries nothing while a cheaper one works.
    #[default]
    CheapFirst,
    /// As `CheapFirst`, and a path that costs more than this carries no data at all.
    NeverAbove(u32),
    /// A path that costs anything carries data only once the application allows it: see
    /// [`Event::PathCostAsked`](crate::Event::PathCostAsked) and
    /// [`Connection::allow_path`](crate::Connection::allow_path).
    Ask,
}

/// The application's answer about a path that costs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::connection) enum Consent {
    #[default]
    Unasked,
    Asked,
    Given,
    Refused,
}
