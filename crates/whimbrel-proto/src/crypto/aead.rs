//! The ciphers that seal packets, and how the two ends agree on one.

use aws_lc_rs::aead::{AES_128_GCM, Algorithm, CHACHA20_POLY1305, quic};

/// A cipher that both ends can agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Aead {
    /// AES-128-GCM: 45 Gbit/s a core where the processor has AES instructions, slow where it has not.
    Aes128Gcm = 1,
    /// ChaCha20-Poly1305: good everywhere.
    ChaCha20Poly1305 = 2,
}

impl Aead {
    /// Returns the cipher with this number on the wire (docs/protocol.md section 3), or `None` if this version does not know
    /// it.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Aes128Gcm),
            2 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// Returns the cipher's number on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the length of packet and header keys, in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::ChaCha20Poly1305 => 32,
        }
    }

    /// Returns the number of packets that one key may seal, summed over all paths (RFC 9001 section 6.6).
    pub const fn confidentiality_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm => 1 << 23,
            // More than the packets that can be numbered.
            Self::ChaCha20Poly1305 => u64::MAX,
        }
    }

    /// Returns the number of packets that may fail to open in the life of a connection, over all its keys (RFC 9001 section
    /// 6.6).
    pub const fn integrity_limit(self) -> u64 {
        match self {
            Self::Aes128Gcm => 1 << 52,
            Self::ChaCha20Poly1305 => 1 << 36,
        }
    }

    pub(super) fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    pub(super) fn header_algorithm(self) -> &'static quic::Algorithm {
        match self {
            Self::Aes128Gcm => &quic::AES_128,
            Self::ChaCha20Poly1305 => &quic::CHACHA20,
        }
    }
}

/// The ciphers that one end accepts, in order of preference; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    first: Aead,
    second: Option<Aead>,
}

impl Offer {
    /// Offers both ciphers; AES comes first where the processor has instructions for it.
    pub const fn both(aes_in_hardware: bool) -> Self {
        let (first, second) = if aes_in_hardware {
            (Aead::Aes128Gcm, Aead::ChaCha20Poly1305)
        } else {
            (Aead::ChaCha20Poly1305, Aead::Aes128Gcm)
        };
        Self { first, second: Some(second) }
    }

    /// Offers a single cipher.
    pub const fn only(aead: Aead) -> Self {
        Self { first: aead, second: None }
    }

    /// Parses an offer. Unknown numbers and repetitions are ignored; returns `None` if nothing known is left.
    pub fn parse(codes: &[u8]) -> Option<Self> {
        let mut known = codes.iter().filter_map(|code| Aead::from_code(*code));
        let first = known.next()?;
        Some(Self { first, second: known.find(|aead| *aead != first) })
    }

    /// Returns the preferred cipher. It also seals early data, before the server has chosen.
    pub const fn first(self) -> Aead {
        self.first
    }

    /// Returns the ciphers in order of preference.
    pub fn iter(self) -> impl Iterator<Item = Aead> {
        [Some(self.first), self.second].into_iter().flatten()
    }

    /// Returns whether `aead` is offered.
    pub fn contains(self, aead: Aead) -> bool {
        self.first == aead || self.second == Some(aead)
    }

    /// Returns the server's choice: the first cipher of the client's list that is fast here as well, or else the first.
    /// ChaCha20 is fast everywhere, so a client without AES instructions gets it by putting it first.
    pub fn choose(self, aes_in_hardware: bool) -> Aead {
        self.iter().find(|aead| *aead != Aead::Aes128Gcm || aes_in_hardware).unwrap_or(self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_what_both_do_fast() {
        assert_eq!(Offer::both(true).choose(true), Aead::Aes128Gcm);
        assert_eq!(Offer::both(true).choose(false), Aead::ChaCha20Poly1305);
        assert_eq!(Offer::both(false).choose(true), Aead::ChaCha20Poly1305);
        assert_eq!(Offer::only(Aead::Aes128Gcm).choose(false), Aead::Aes128Gcm);
    }

    #[test]
    fn unknown_ciphers_are_passed_over() {
        let offer = Offer::parse(&[9, 2, 2, 0, 1, 1]).unwrap();
        assert_eq!(offer.iter().collect::<Vec<_>>(), [Aead::ChaCha20Poly1305, Aead::Aes128Gcm]);
        assert_eq!(Offer::parse(&[0, 3, 255]), None);
        assert_eq!(Offer::parse(&[]), None);
    }
}
