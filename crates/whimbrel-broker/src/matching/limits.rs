use std::fmt;

/// The limits on subscriptions of one client and of all together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Subscriptions of one client. Default: 10,000.
    pub max_client_subscriptions: usize,
    /// Levels of all filters of one client: a message may have to look at each. Default: 65,536.
    pub max_client_levels: usize,
    /// Bytes of memory of all selectors of one client. Default: 8 MiB.
    pub max_client_selectors: usize,
    /// Selectors of one client that have to be evaluated for each message of their filter, since no equality or range of one property
    /// follows from them. Default: 256.
    pub max_client_scanned: usize,
    /// Subscriptions of all clients. Default: 1,000,000.
    pub max_subscriptions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_client_subscriptions: 10_000,
            max_client_levels: 65_536,
            max_client_selectors: 8 << 20,
            max_client_scanned: 256,
            max_subscriptions: 1_000_000,
        }
    }
}

/// A subscription is one too many. Each has the limit that it is beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// [`Limits::max_client_subscriptions`].
    ClientSubscriptions(usize),
    /// [`Limits::max_client_levels`].
    ClientLevels(usize),
    /// [`Limits::max_client_selectors`].
    ClientSelectors(usize),
    /// [`Limits::max_client_scanned`].
    ClientScanned(usize),
    /// [`Limits::max_subscriptions`].
    Subscriptions(usize),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClientSubscriptions(most) => write!(f, "a client has at most {most} subscriptions"),
            Self::ClientLevels(most) => {
                write!(f, "the filters of a client have at most {most} levels in all")
            }
            Self::ClientSelectors(most) => {
                write!(f, "the selectors of a client take at most {most} bytes of memory")
            }
            Self::ClientScanned(most) => write!(
                f,
                "a client has at most {most} selectors without a term such as key = 'value' or key > 5 that always holds"
            ),
            Self::Subscriptions(most) => {
                write!(f, "the broker already has {most} subscriptions, the maximum")
            }
        }
    }
}

impl std::error::Error for Refused {}

/// The share of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) subscriptions: usize,
    pub(super) levels: usize,
    pub(super) selectors: usize,
    pub(super) scanned: usize,
}

impl Usage {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            subscriptions: self.subscriptions + other.subscriptions,
            levels: self.levels + other.levels,
            selectors: self.selectors + other.selectors,
            scanned: self.scanned + other.scanned,
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            subscriptions: self.subscriptions - other.subscriptions,
            levels: self.levels - other.levels,
            selectors: self.selectors - other.selectors,
            scanned: self.scanned - other.scanned,
        }
    }

    pub(super) fn check(&self, limits: &Limits) -> Result<(), Refused> {
        if self.subscriptions > limits.max_client_subscriptions {
            return Err(Refused::ClientSubscriptions(limits.max_client_subscriptions));
        }
        if self.levels > limits.max_client_levels {
            return Err(Refused::ClientLevels(limits.max_client_levels));
        }
        if self.selectors > limits.max_client_selectors {
            return Err(Refused::ClientSelectors(limits.max_client_selectors));
        }
        if self.scanned > limits.max_client_scanned {
            return Err(Refused::ClientScanned(limits.max_client_scanned));
        }
        Ok(())
    }
}
