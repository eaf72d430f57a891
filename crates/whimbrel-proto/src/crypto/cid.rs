//! Connection ids: eight bytes that look random, never repeat, and tell their issuer which core owns them.

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use rand::CryptoRng;
use zeroize::Zeroizing;

use super::identity::Identity;
use crate::ConnectionId;
use crate::debug_only::debug_only;

/// A Luby-Rackoff permutation is strong with four rounds; two more are a margin, at about 25 ns each.
const ROUNDS: u8 = 6;

/// Issues connection ids for one core.
///
/// An id is `core (8 bits) ‖ counter (56 bits)` under a 64-bit permutation. The permutation is a Feistel network with
/// AES-128 as its round function, because AWS-LC has no 64-bit block cipher. Its key is derived from the static key,
/// so every core, and a steering program, can read the core of any id. The counter starts at a random value in each
/// process, so ids from before a restart do not return soon.
pub struct CidGenerator {
    key: HeaderProtectionKey,
    core: u8,
    counter: u64,
}

debug_only!(CidGenerator { core });

impl CidGenerator {
    /// Creates a generator of ids owned by `core`. Two generators of one identity and core must not run at the same
    /// time.
    pub fn new(identity: &Identity, core: u8, rng: &mut impl CryptoRng) -> Self {
        let mut key = Zeroizing::new([0; 16]);
        identity.derive("connection ids").expand("key", &[], key.as_mut_slice());
        let key =
            HeaderProtectionKey::new(&AES_128, key.as_slice()).expect("the key has the cipher's length");
        Self { key, core, counter: rng.next_u64() }
    }

    /// Issues an id that this generator has not issued before (within 2^56 ids). It is never zero, which means "none"
    /// in SYN.
    pub fn issue(&mut self) -> ConnectionId {
        loop {
            self.counter = self.counter.wrapping_add(1);
            let id = self.encrypt(u64::from(self.core) << 56 | self.counter & (u64::MAX >> 8));
            if id != 0 {
                return ConnectionId(id);
            }
        }
    }

    /// Returns the core that owns `id`; an arbitrary one if the id was not issued under this identity.
    pub fn core_of(&self, id: ConnectionId) -> u8 {
        (self.decrypt(id.0) >> 56) as u8
    }

    fn encrypt(&self, block: u64) -> u64 {
        let (left, right) = (0..ROUNDS).fold(halves(block), |(l, r), round| (r, l ^ self.round(round, r)));
        join(right, left)
    }

    fn decrypt(&self, block: u64) -> u64 {
        let (left, right) =
            (0..ROUNDS).rev().fold(halves(block), |(l, r), round| (r, l ^ self.round(round, r)));
        join(right, left)
    }

    /// Header protection's mask is the head of AES(sample): a pseudorandom function of the round number and the half.
    fn round(&self, round: u8, half: u32) -> u32 {
        let mut block = [0; 16];
        block[0] = round;
        block[4..8].copy_from_slice(&half.to_be_bytes());
        let [a, b, c, d, _] = self.key.new_mask(&block).expect("the block has the sample's length");
        u32::from_be_bytes([a, b, c, d])
    }
}

const fn halves(block: u64) -> (u32, u32) {
    ((block >> 32) as u32, block as u32)
}

const fn join(left: u32, right: u32) -> u64 {
    (left as u64) << 32 | right as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn ids_differ_look_random_and_name_their_core() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(3);
        let identity = Identity::generate(&mut rng);
        let reader = CidGenerator::new(&identity, 0, &mut rng);
        let mut seen = BTreeSet::new();
        let mut ones = 0;
        for core in 0..=255 {
            let mut generator = CidGenerator::new(&identity, core, &mut rng);
            for _ in 0..64 {
                let id = generator.issue();
                assert_eq!(reader.core_of(id), core);
                assert!(seen.insert(id));
                ones += id.0.count_ones();
            }
        }
        let mean = f64::from(ones) / (256.0 * 64.0);
        assert!((31.8..32.2).contains(&mean), "{mean} of 64 bits set");
    }
}
