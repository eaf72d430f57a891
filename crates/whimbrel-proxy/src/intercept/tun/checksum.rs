//! The Internet checksum (RFC 1071), and what changes it (RFC 1624).

/// A sum in ones' complement, not yet folded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum(u64);

impl Sum {
    /// Adds bytes from an even place on. A last odd byte counts as followed by a zero.
    pub(super) fn add(self, bytes: &[u8]) -> Self {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let sum: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
        let last = rest.first().map_or(0, |last| u64::from(*last) << 8);
        // Far below what a u64 holds, as a packet has at most 64 KiB.
        Self(self.0 + sum + last)
    }

    /// Takes out bytes that were added before.
    pub(super) fn remove(self, bytes: &[u8]) -> Self {
        Self(self.0 + u64::from(!Self::default().add(bytes).fold()))
    }

    /// Adds a number.
    pub(super) fn plus(self, number: u16) -> Self {
        Self(self.0 + u64::from(number))
    }

    /// The sum in 16 bits.
    pub(super) fn fold(self) -> u16 {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The checksum.
    pub(super) fn checksum(self) -> u16 {
        !self.fold()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_change_is_as_good_as_a_new_sum(
            before in proptest::collection::vec(any::<u8>(), 4),
            after in proptest::collection::vec(any::<u8>(), 4),
            rest in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let whole = Sum::default().add(&before).add(&rest);
            let changed = Sum::default().plus(whole.fold()).remove(&before).add(&after);
            let anew = Sum::default().add(&after).add(&rest);
            // There are two zeros.
            prop_assert_eq!(changed.fold() % 0xffff, anew.fold() % 0xffff);
        }
    }

    #[test]
    fn the_example_of_the_rfc() {
        let sum = Sum::default().add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.fold(), 0xddf2);
        assert_eq!(Sum::default().add(&[0x12]).fold(), 0x1200);
    }
}
