//! Blinded lookups: an index keyed by a hash with a secret key, so that lookup times reveal nothing of the tokens in
//! it.

use aws_lc_rs::aead::quic::{AES_128, HeaderProtectionKey};
use rand::CryptoRng;
use zeroize::Zeroizing;

use super::reset::ResetToken;

/// A pseudorandom function of reset tokens, under a key that nobody else has.
pub(crate) struct Blind(HeaderProtectionKey);

/// A token as it stands in an index: 80 bits, so that two of a million tokens do not collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Blinded([u8; 10]);

impl Blind {
    pub(crate) fn new(rng: &mut impl CryptoRng) -> Self {
        let mut key = Zeroizing::new([0; 16]);
        rng.fill_bytes(key.as_mut_slice());
        let key = HeaderProtectionKey::new(&AES_128, key.as_slice());
        Self(key.expect("the key has the cipher's length"))
    }

    /// Blinds a token. Header protection's mask is the head of AES(sample); two different samples give twice as many
    /// bytes. Each takes some 20 ns.
    pub(crate) fn of(&self, token: &ResetToken) -> Blinded {
        let sample = token.as_bytes();
        let mask = |sample: &[u8; 16]| self.0.new_mask(sample).expect("a token has the sample's length");
        let mut blinded = [0; 10];
        blinded[..5].copy_from_slice(&mask(sample));
        blinded[5..].copy_from_slice(&mask(&sample.map(|byte| !byte)));
        Blinded(blinded)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn how_far_two_tokens_agree_does_not_show() {
        let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(4);
        let (blind, other) = (Blind::new(&mut rng), Blind::new(&mut rng));
        let tokens: Vec<ResetToken> = (0..=255)
            .map(|last| {
                let mut token = [9; 16];
                token[15] = last;
                ResetToken::new(token)
            })
            .collect();
        let blinded: Vec<Blinded> = tokens.iter().map(|token| blind.of(token)).collect();
        let rising = blinded.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((90..165).contains(&rising), "the order of tokens shows: {rising} of 255 rise");
        let agreeing = blinded.windows(2).filter(|pair| pair[0].0[0] == pair[1].0[0]).count();
        assert!(agreeing < 8, "a common beginning shows");
        assert!(tokens.iter().all(|token| blind.of(token) == blind.of(token)));
        assert!(tokens.iter().all(|token| blind.of(token) != other.of(token)), "each process has its own");
    }
}
