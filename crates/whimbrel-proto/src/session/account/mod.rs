//! Credit, memory held for the peer and for the application, and promises to the application.

pub(in crate::session) mod admission;
pub(in crate::session) mod buffered;
pub(in crate::session) mod credit;
pub(in crate::session) mod held;
pub(in crate::session) mod pace;
pub(in crate::session) mod reserve;
pub(in crate::session) mod stalling;
pub(in crate::session) mod stalls;
pub(in crate::session) mod weighing;

use buffered::Buffered;
use credit::{ReceivedCredit, SendCredit};
use held::Held;
use pace::GrantDelay;
use reserve::Reserve;
use stalls::Stalls;

use super::config::{DEFAULT_CREDIT, SessionConfig};
use crate::budget::Budgets;

/// The credit and limits that the two ends of a session grant each other.
#[derive(Debug)]
pub(in crate::session) struct Account {
    /// Credit used on all streams together, limited until the peer has announced its limits.
    pub(in crate::session) sent: SendCredit,
    pub(in crate::session) received: ReceivedCredit,
    pub(in crate::session) reserve: Reserve,
    pub(in crate::session) grant_delay: GrantDelay,
    pub(in crate::session) stalls: Stalls,
    pub(in crate::session) held: Held,
    pub(in crate::session) buffered: Buffered,
}

impl Account {
    /// Creates the account of a session that does not draw on a shared budget yet.
    pub(in crate::session) fn new(config: &SessionConfig) -> Self {
        Self {
            sent: SendCredit::new(DEFAULT_CREDIT),
            received: ReceivedCredit::default(),
            reserve: Reserve::new(config.session_window, &Budgets::unlimited()),
            grant_delay: GrantDelay::default(),
            stalls: Stalls::default(),
            held: Held::default(),
            buffered: Buffered::default(),
        }
    }
}
