//! Several small datagrams in one message.

use bytes::{Bytes, BytesMut};

use super::datagram::{Datagram, take_number, write_number};
use super::fields::Malformed;

/// The most datagrams of one message. A receiver drops further ones: each costs it a packet, and the sender a few bytes.
pub const MOST_PARTS: usize = 64;
/// The longest datagram that travels with others, in bytes.
pub const MOST_GATHERED: usize = 512;

/// Datagrams of one session that travel together: each is its length and its message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    bytes: BytesMut,
    count: usize,
}

impl Gathered {
    /// Adds a message with a datagram.
    pub fn add(&mut self, message: &[u8]) {
        write_number(&mut self.bytes, message.len() as u64);
        self.bytes.extend_from_slice(message);
        self.count += 1;
    }

    /// Returns the number of datagrams.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the length of its content.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Takes all, as one message. One datagram alone is a message of its own. `None`: there is nothing.
    pub fn take(&mut self) -> Option<Bytes> {
        let (bytes, count) = (self.bytes.split().freeze(), std::mem::take(&mut self.count));
        match count {
            0 => None,
            1 => parts(&bytes).next(),
            _ => Some(Datagram::Gathered(bytes).to_bytes()),
        }
    }

    /// Reads the content of a message. What is no datagram is passed over.
    ///
    /// # Errors
    /// It is cut off.
    pub fn read(content: &Bytes) -> Result<Vec<Datagram>, Malformed> {
        let mut all = Vec::new();
        let mut left = content.clone();
        while !left.is_empty() && all.len() < MOST_PARTS {
            let part = part(&mut left).ok_or(Malformed("gathered datagrams"))?;
            if let Ok(datagram @ Datagram::Plain(..)) = Datagram::from_bytes(part) {
                all.push(datagram);
            }
        }
        Ok(all)
    }
}

fn parts(content: &Bytes) -> impl Iterator<Item = Bytes> {
    let mut left = content.clone();
    std::iter::from_fn(move || part(&mut left))
}

fn part(left: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(take_number(left)?).ok()?;
    (length <= left.len()).then(|| left.split_to(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Context, Refusal};

    fn plain(number: u64, payload: &'static [u8]) -> Datagram {
        Datagram::Plain(Context(number), Bytes::from_static(payload))
    }

    #[test]
    fn datagrams_come_back_in_order() {
        let all = [plain(0, b"one"), plain(4_097, b""), plain(1, &[7; 300])];
        let mut gathered = Gathered::default();
        for datagram in &all {
            gathered.add(&datagram.to_bytes());
        }
        assert_eq!(gathered.count(), 3);
        let message = gathered.take().unwrap();
        let Ok(Datagram::Gathered(content)) = Datagram::from_bytes(message) else {
            panic!("no such message")
        };
        assert_eq!(Gathered::read(&content).unwrap(), all);
        assert_eq!((gathered.take(), gathered.count()), (None, 0));
        gathered.add(&all[0].to_bytes());
        assert_eq!(gathered.take(), Some(all[0].to_bytes()), "one alone is as it would be");
    }

    #[test]
    fn hostile_bytes_make_no_more_than_a_few_datagrams() {
        // A part of another kind is no datagram, and nothing is gathered twice.
        let mut gathered = Gathered::default();
        let inner = {
            gathered.add(&plain(0, b"x").to_bytes());
            gathered.bytes.clone().freeze()
        };
        gathered.add(&Datagram::Gathered(inner).to_bytes());
        gathered.add(&Datagram::Refused(Context(0), Refusal::Denied).to_bytes());
        assert_eq!(Gathered::read(&gathered.bytes.clone().freeze()).unwrap(), [plain(0, b"x")]);
        // Two bytes make a datagram, so a long message would make thousands.
        let flood: Bytes = [1, 0].repeat(10_000).into();
        assert_eq!(Gathered::read(&flood).unwrap().len(), MOST_PARTS);
        for wrong in [&[5, 0][..], &[0x40], &[0xff; 8]] {
            assert!(Gathered::read(&Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
        for seed in 0..2_000_u32 {
            let bytes: Bytes = (0..seed % 40)
                .map(|at| (seed.wrapping_mul(2_654_435_761).rotate_left(at) >> 7) as u8)
                .collect();
            drop(Gathered::read(&bytes));
        }
    }
}
