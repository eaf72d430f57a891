//! The shares that all sessions of one peer have together, so that no peer takes what others need.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Semaphore;

use super::limits::Limits;
use super::speaking::Spoken;
use crate::allowance::Allowance;

/// Names that are looked up for one peer at the same time. The system looks up on threads that all peers share.
const LOOK_UPS: usize = 16;

/// Echo requests that are sent for one peer in a second. Further ones are lost.
const ECHOES_PER_SECOND: u32 = 100;

/// Datagrams to groups that are sent on for one peer in a second. Further ones are lost.
const SENT_ON_PER_SECOND: u32 = 1_000;

/// The rest of a peer's shares.
#[derive(Debug)]
pub(super) struct Shares {
    /// TCP flows that it has opened.
    pub(super) flows: Arc<Semaphore>,
    /// Connections that are being made for it.
    pub(super) connecting: Semaphore,
    /// Names that are being looked up for it.
    pub(super) look_ups: Arc<Semaphore>,
    /// Its UDP programs.
    pub(super) udp_programs: Arc<Semaphore>,
    /// Its echo requests.
    echoes: Mutex<Allowance>,
    /// Its datagrams to groups.
    sent_on: Mutex<Allowance>,
    /// Sockets in the names of its programs.
    pub(super) spoken: Spoken,
}

impl Shares {
    pub(super) fn new(limits: &Limits) -> Self {
        let semaphore = |most: usize| Semaphore::new(most.min(Semaphore::MAX_PERMITS));
        let shared = |most| Arc::new(semaphore(most));
        Self {
            flows: shared(limits.max_flows_per_peer),
            connecting: semaphore(limits.max_connecting_per_peer),
            look_ups: shared(LOOK_UPS),
            udp_programs: shared(limits.max_udp_programs),
            echoes: Mutex::new(Allowance::new(ECHOES_PER_SECOND)),
            sent_on: Mutex::new(Allowance::new(SENT_ON_PER_SECOND)),
            spoken: Spoken::default(),
        }
    }

    /// Returns whether one more echo request may be sent for the peer.
    pub(super) fn may_ping(&self) -> bool {
        take(&self.echoes)
    }

    /// Returns whether one more datagram to a group may be sent on for the peer.
    pub(super) fn may_send_on(&self) -> bool {
        take(&self.sent_on)
    }
}

fn take(allowance: &Mutex<Allowance>) -> bool {
    allowance.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_limit_may_be_as_large_as_a_number_can_be() {
        let (max_flows_per_peer, max_connecting_per_peer, max_udp_programs) =
            (usize::MAX, usize::MAX, usize::MAX);
        let limits =
            Limits { max_flows_per_peer, max_connecting_per_peer, max_udp_programs, ..Limits::default() };
        let shares = Shares::new(&limits);
        assert_eq!(shares.flows.available_permits(), Semaphore::MAX_PERMITS);
    }
}
