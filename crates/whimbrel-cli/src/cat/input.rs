//! Standard input, a message at a time, on a thread of its own: reading it cannot be cancelled.

use std::io::{self, BufRead, Read};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Where one message ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// At a line end, which is not part of it.
    Lines,
    /// After so many bytes.
    Pieces(usize),
    /// Wherever a read ends.
    Anywhere,
}

/// Messages read ahead.
const AHEAD: usize = 256;
/// A line longer than what a peer takes in one message would fill memory for nothing.
const LINE_MAX: u64 = 16 << 20;
/// What one read takes at most.
const READ: usize = 1 << 16;

/// Reads standard input to its end; an error is the last.
pub(super) fn read_messages(cut: Cut) -> mpsc::Receiver<io::Result<Bytes>> {
    let (send, receive) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let next = read_one(&mut input, cut).transpose();
            let Some(next) = next else { return };
            let failed = next.is_err();
            if send.blocking_send(next).is_err() || failed {
                return;
            }
        }
    });
    receive
}

fn read_one(input: &mut impl BufRead, cut: Cut) -> io::Result<Option<Bytes>> {
    let mut message = Vec::new();
    match cut {
        Cut::Lines => {
            let read = input.take(LINE_MAX + 1).read_until(b'\n', &mut message)?;
            if read == 0 {
                return Ok(None);
            }
            if message.last() == Some(&b'\n') {
                message.pop();
            } else if read as u64 > LINE_MAX {
                return Err(io::Error::other("a line is longer than 16Mi: use --bytes or --message-size"));
            }
        }
        Cut::Pieces(size) => {
            if input.take(size as u64).read_to_end(&mut message)? == 0 {
                return Ok(None);
            }
        }
        Cut::Anywhere => {
            let ready = input.fill_buf()?;
            let ready = &ready[..ready.len().min(READ)];
            if ready.is_empty() {
                return Ok(None);
            }
            message.extend_from_slice(ready);
            let count = message.len();
            input.consume(count);
        }
    }
    Ok(Some(message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut input: &[u8], cut: Cut) -> Vec<Bytes> {
        std::iter::from_fn(|| read_one(&mut input, cut).unwrap()).collect()
    }

    #[test]
    fn lines_and_pieces() {
        assert_eq!(all(b"a\n\nbc", Cut::Lines), ["a", "", "bc"]);
        assert_eq!(all(b"abcdefg", Cut::Pieces(3)), ["abc", "def", "g"]);
        assert_eq!(all(b"abc", Cut::Anywhere), ["abc"]);
        assert_eq!(all(b"", Cut::Lines), Vec::<Bytes>::new());
    }
}
