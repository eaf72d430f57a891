//! The number of seats in groups, also of members that are away.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use whimbrel_pubsub::frame::{Refusal, RefusalCode};

/// The most seats in groups, of all who subscribe.
const MOST_SEATS: usize = 100_000;
/// The most seats of one user, in all of its sessions. Clients without a name have them together.
const MOST_SEATS_OF_USER: usize = 10_000;

/// The user whose seats are counted together.
pub type UserId = u64;

/// The seats that are taken.
#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of_user: BTreeMap<UserId, usize>,
}

/// A seat that counts until this is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    seats: Arc<Seats>,
    user: UserId,
}

impl Seats {
    /// Counts a seat.
    pub(super) fn take(self: &Arc<Self>, user: UserId) -> Result<Counted, Refusal> {
        let mut taken = self.taken();
        let of_user = taken.of_user.get(&user).copied().unwrap_or(0);
        let refused = |why: String| Err(Refusal::new(RefusalCode::Limit, why));
        if of_user >= MOST_SEATS_OF_USER {
            return refused(format!(
                "your sessions already have {MOST_SEATS_OF_USER} shared subscriptions, counting those of clients that are away"
            ));
        }
        if taken.all >= MOST_SEATS {
            return refused(format!("the broker already has {MOST_SEATS} shared subscriptions, the maximum"));
        }
        taken.all += 1;
        taken.of_user.insert(user, of_user + 1);
        Ok(Counted { seats: Arc::clone(self), user })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.all -= 1;
        if let Some(of_user) = taken.of_user.get_mut(&self.user) {
            *of_user -= 1;
            if *of_user == 0 {
                taken.of_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_of_a_user_and_of_all_are_counted_until_they_are_given_back() {
        let seats = Arc::<Seats>::default();
        let take = |user| seats.take(user);
        let mut taken: Vec<_> = (0..MOST_SEATS_OF_USER).map(|_| take(0).unwrap()).collect();
        assert!(take(0).unwrap_err().reason.contains("of clients that are away"));
        for user in 1..(MOST_SEATS / MOST_SEATS_OF_USER) as u64 {
            taken.extend((0..MOST_SEATS_OF_USER).map(|_| take(user).unwrap()));
        }
        assert!(take(99).unwrap_err().reason.contains("the broker already has"));
        taken.pop();
        assert!(take(99).is_ok());
        drop(taken);
        assert!(seats.taken().all == 0 && seats.taken().of_user.is_empty());
    }
}
