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

/// The cost of a path, and the application's word on it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct PathCost {
    /// The cost of a byte here, in the application's unit. Less is better.
    value: u32,
    consent: Consent,
}

/// The application's answer about a path that costs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Consent {
    #[default]
    Unasked,
    Asked,
    Given,
    Refused,
}

impl PathCost {
    pub(in crate::connection) fn value(self) -> u32 {
        self.value
    }

    /// Sets the cost of a byte. The application's word stays.
    pub(in crate::connection) fn set(&mut self, value: u32) {
        self.value = value;
    }

    /// Records that the application is asked. Returns whether that has a point: the path costs something, and the
    /// application was not asked before.
    pub(in crate::connection) fn ask(&mut self) -> bool {
        let asks = self.value > 0 && self.consent == Consent::Unasked;
        if asks {
            self.consent = Consent::Asked;
        }
        asks
    }

    /// Handles the application's answer, which may change at any time.
    pub(in crate::connection) fn on_answer(&mut self, allowed: bool) {
        self.consent = if allowed { Consent::Given } else { Consent::Refused };
    }

    /// Returns whether the policy permits data here.
    pub(in crate::connection) fn is_affordable(self, policy: CostPolicy) -> bool {
        match policy {
            CostPolicy::Ignore | CostPolicy::CheapFirst => true,
            CostPolicy::NeverAbove(most) => self.value <= most,
            CostPolicy::Ask => self.value == 0 || self.consent == Consent::Given,
        }
    }
}
