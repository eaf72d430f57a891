//! Frames in datagrams, for peers that carry each datagram by itself.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};

use crate::job::frame_size;

/// Bytes at the front of each piece: the frame's number, and the piece's index.
const HEAD: usize = 10;
/// Frames that may be incomplete at a time. The oldest is given up.
const KEPT: usize = 64;

/// Cuts a frame into datagrams of up to `longest` bytes.
pub(super) fn cut(frame: &Bytes, longest: usize) -> impl Iterator<Item = Bytes> {
    frame.chunks(longest - HEAD).enumerate().map(move |(index, body)| {
        let mut piece = BytesMut::with_capacity(longest);
        piece.put_slice(&frame[..8]);
        piece.put_u16(index as u16);
        piece.put_slice(body);
        piece.freeze()
    })
}

/// Puts frames together.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    frames: BTreeMap<u64, BTreeMap<u16, Vec<u8>>>,
}

impl Pieces {
    /// Takes a datagram. Returns the frame that is now whole.
    pub(super) fn take(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        let (number, rest) = datagram.split_first_chunk()?;
        let (index, body) = rest.split_first_chunk()?;
        let number = u64::from_be_bytes(*number);
        let pieces = self.frames.entry(number).or_default();
        pieces.insert(u16::from_be_bytes(*index), body.to_vec());
        let whole = pieces.values().map(Vec::len).sum::<usize>() == frame_size(number);
        let frame = whole.then(|| self.frames.remove(&number)).flatten();
        if self.frames.len() > KEPT {
            self.frames.pop_first();
        }
        Some(frame?.into_values().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_whole_with_its_last_piece_in_whatever_order() {
        let mut frame = 3u64.to_be_bytes().to_vec();
        frame.extend((8..frame_size(3)).map(|at| at as u8));
        let frame = Bytes::from(frame);
        let datagrams: Vec<_> = cut(&frame, 1200).collect();
        assert!(datagrams.iter().all(|datagram| datagram.len() <= 1200));
        let mut pieces = Pieces::default();
        for datagram in datagrams.iter().skip(1).rev().chain(&datagrams[1..3]) {
            assert_eq!(pieces.take(datagram), None);
        }
        assert_eq!(pieces.take(&datagrams[0]).as_deref(), Some(&frame[..]));
        assert!(pieces.frames.is_empty());
    }
}
