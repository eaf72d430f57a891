//! Standard input, one message at a time.

use std::io;

use bytes::{Buf, BytesMut};

use super::reader::Reader;

/// The rule that divides the input into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// A message ends at a line end, which does not belong to it.
    Lines,
    /// A message has this many bytes.
    Pieces(usize),
    /// A message ends wherever a read ends.
    Anywhere,
}

/// The longest line, in bytes: a longer one than a peer accepts as a message would only fill memory.
const LINE_MAX: usize = 16 << 20;

/// Standard input, preceded by what an earlier process had read of its own. Input that was not taken yet stays in
/// here, so that it can be handed to another process.
pub(super) struct Input {
    cut: Cut,
    /// The reader of standard input; `None` once the input has ended.
    reader: Option<Reader>,
    held: BytesMut,
    /// The length of the part of `held` that is known to contain no line end.
    searched: usize,
    /// The length of the message that was returned last, with its line end.
    given: usize,
}

impl Input {
    /// Starts reading standard input, after the bytes `before`.
    ///
    /// # Errors
    /// The system provides no handle on standard input.
    pub(super) fn start(cut: Cut, before: &[u8]) -> io::Result<Self> {
        Ok(Self { reader: Some(Reader::start()?), ..Self::of(cut, before) })
    }

    /// Creates an input of these bytes and nothing else.
    pub(super) fn of(cut: Cut, bytes: &[u8]) -> Self {
        Self { cut, reader: None, held: bytes.into(), searched: 0, given: 0 }
    }

    /// Returns the next message, which stays here until it is taken, or `None` at the end. Cancel-safe.
    ///
    /// # Errors
    /// Reading failed, or a line is too long.
    pub(super) async fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            if let Some((length, given)) = self.first()? {
                self.given = given;
                return Ok(Some(&self.held[..length]));
            }
            let Some(reader) = &mut self.reader else {
                self.given = self.held.len();
                return Ok((self.given > 0).then_some(&self.held[..]));
            };
            match reader.next().await {
                Some(chunk) => self.held.extend_from_slice(&chunk?),
                None => self.reader = None,
            }
        }
    }

    /// Removes the message that [`Self::next`] returned.
    pub(super) fn take(&mut self) {
        self.take_part(self.given);
    }

    /// Removes the first `count` bytes of it.
    pub(super) fn take_part(&mut self, count: usize) {
        self.held.advance(count);
        self.searched = 0;
    }

    /// Returns whether everything that was read was taken.
    pub(super) fn is_idle(&self) -> bool {
        self.held.is_empty() && self.reader.as_ref().is_none_or(Reader::is_idle)
    }

    /// Stops reading standard input and returns what was read and not taken.
    pub(super) fn stop(self) -> Vec<u8> {
        let mut rest = self.held.to_vec();
        match self.reader {
            Some(reader) => rest.extend(reader.stop()),
            // The last line needs no line end by itself, but does before the input of another process.
            None if self.cut == Cut::Lines && !matches!(rest.last(), None | Some(b'\n')) => rest.push(b'\n'),
            None => {}
        }
        rest
    }

    /// The length of the first complete message, without and with its line end.
    fn first(&mut self) -> io::Result<Option<(usize, usize)>> {
        let held = self.held.len();
        match self.cut {
            Cut::Lines => {
                let found = self.held[self.searched..].iter().position(|byte| *byte == b'\n');
                let end = found.map(|at| self.searched + at);
                self.searched = end.unwrap_or(held);
                if self.searched > LINE_MAX {
                    return Err(io::Error::other(
                        "a line is longer than 16Mi: use --bytes or --message-size",
                    ));
                }
                Ok(end.map(|end| (end, end + 1)))
            }
            Cut::Pieces(size) => Ok((held >= size).then_some((size, size))),
            Cut::Anywhere => Ok((held > 0).then_some((held, held))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8], cut: Cut) -> Vec<Vec<u8>> {
        let mut input = Input::of(cut, bytes);
        let mut all = Vec::new();
        while let Some(message) = input.next().await.unwrap() {
            all.push(message.to_vec());
            input.take();
        }
        all
    }

    #[tokio::test]
    async fn lines_and_pieces() {
        assert_eq!(all(b"a\n\nbc", Cut::Lines).await, [&b"a"[..], b"", b"bc"]);
        assert_eq!(all(b"abcdefg", Cut::Pieces(3)).await, [&b"abc"[..], b"def", b"g"]);
        assert_eq!(all(b"abc", Cut::Anywhere).await, [b"abc"]);
        assert!(all(b"", Cut::Lines).await.is_empty());
        assert!(Input::of(Cut::Lines, &vec![b'-'; LINE_MAX + 1]).next().await.is_err());
    }

    #[tokio::test]
    async fn what_was_not_taken_is_left() {
        let mut input = Input::of(Cut::Lines, b"one\ntwo\nthree");
        input.next().await.unwrap();
        input.take();
        assert_eq!(input.next().await.unwrap(), Some(&b"two"[..]));
        assert_eq!(input.stop(), b"two\nthree\n");
        let mut input = Input::of(Cut::Anywhere, b"bytes");
        input.next().await.unwrap();
        input.take_part(2);
        assert_eq!(input.stop(), b"tes");
    }
}
