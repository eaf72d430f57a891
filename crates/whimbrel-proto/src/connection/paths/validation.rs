//! Whether the peer has shown that it is where its packets say they come from.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

/// Where challenges come from: a generator would be ten times as large, in every connection, for what few ever need.
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

/// Until it has, an address may be somebody's whom a flood is to hit (RFC 9000 section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) enum Validation {
    /// A cookie came back from there, or a packet under keys that only who received PONG can have.
    Proven,
    /// A ticket says who it is and not where: three times what came from there may be sent. UDP payload.
    Unproven { received: u64, sent: u64 },
}

impl Validation {
    /// Nothing has come from there yet.
    pub(in crate::connection) const UNPROVEN: Self = Self::Unproven { received: 0, sent: 0 };

    /// Bytes that may be sent now.
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
