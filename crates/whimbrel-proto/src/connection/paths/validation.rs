//! Address validation: whether the peer has shown that it is where its packets seem to come from.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// The source of challenges. It keeps a seed and a counter: a generator would be ten times as large, in every
/// connection, and few need it.
#[derive(Debug)]
pub(in crate::connection) struct Challenges {
    seed: [u8; 32],
    drawn: u64,
}

impl Challenges {
    pub(in crate::connection) fn new(rng: &mut ChaCha20Rng) -> Self {
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        Self { seed, drawn: 0 }
    }

    pub(in crate::connection) fn draw(&mut self) -> u64 {
        let mut rng = ChaCha20Rng::from_seed(self.seed);
        rng.set_stream(self.drawn);
        self.drawn += 1;
        rng.next_u64()
    }
}

/// Whether an address is validated. Until it is, it may be that of a victim that a flood is to hit (RFC 9000 section
/// 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Validation {
    /// The peer is there: a cookie came back, a challenge was answered, or a packet came under keys that only the
    /// receiver of PONG can have.
    Proven,
    /// Not validated: a ticket, for example, says who the peer is but not where. At most three times the bytes received
    /// from there may be sent. UDP payload.
    Unproven { received: u64, sent: u64 },
}

impl Validation {
    /// The state of an address from which nothing has come yet.
    pub(in crate::connection) const UNPROVEN: Self = Self::Unproven { received: 0, sent: 0 };

    /// Returns how many bytes may be sent now.
    pub(in crate::connection) fn room(&self) -> usize {
        match self {
            Self::Proven => usize::MAX,
            Self::Unproven { received, sent } => {
                usize::try_from((3 * received).saturating_sub(*sent)).unwrap_or(usize::MAX)
            }
        }
    }

    pub(in crate::connection) fn on_received(&mut self, bytes: usize) {
        if let Self::Unproven { received, .. } = self {
            *received += bytes as u64;
        }
    }

    pub(in crate::connection) fn on_sent(&mut self, bytes: usize) {
        if let Self::Unproven { sent, .. } = self {
            *sent += bytes as u64;
        }
    }

    pub(in crate::connection) fn prove(&mut self) {
        *self = Self::Proven;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_what_came_in_until_proven() {
        let mut validation = Validation::Unproven { received: 0, sent: 0 };
        assert_eq!(validation.room(), 0);
        validation.on_received(100);
        validation.on_sent(250);
        assert_eq!(validation.room(), 50);
        validation.on_sent(60);
        assert_eq!(validation.room(), 0);
        validation.prove();
        assert_eq!(validation.room(), usize::MAX);
    }
}
