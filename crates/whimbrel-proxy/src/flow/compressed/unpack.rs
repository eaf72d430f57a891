//! One direction of a compressed flow, at its receiver: pieces become bytes for a program. The pieces are a peer's: what
//! is made of them at a time is bounded, however much they would make.

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};

use super::piece::{HeaderReader, Kind};
use crate::compress::{Decoder, Dictionary, MalformedCompression, Method};

/// The most bytes that are made of pieces at once.
const ROOM: usize = 64 * 1024;
/// The most pieces that are begun at once: some make no bytes at all, and others wait meanwhile.
const PIECES: usize = 64;
/// The most parts that these come in: each takes memory of its own, however small it is.
const PARTS: usize = 64;

thread_local! {
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; ROOM].into_boxed_slice());
}

/// The receiver's side of a direction.
#[derive(Debug)]
pub(super) struct Unpacker {
    method: Method,
    dictionary: Option<Dictionary>,
    decoder: Option<Decoder>,
    header: HeaderReader,
    state: State,
    /// The pieces begun in one call.
    begun: usize,
    /// Whether it stops where it needs no context.
    settles: bool,
}

/// Where a receiver is that needs no context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    header: HeaderReader,
    /// So many bytes of the piece are left. They are the program's.
    plain: usize,
}

#[derive(Debug)]
enum State {
    Between,
    /// So many bytes are the program's.
    Plain(usize),
    /// So many bytes are compressed. The decoder may have more to give than it had room for.
    Packed(usize, bool),
}

impl State {
    fn plain(left: usize) -> Self {
        if left > 0 { Self::Plain(left) } else { Self::Between }
    }
}

impl Unpacker {
    /// `plain` bytes come in front of the first piece.
    pub(super) fn new(method: Method, dictionary: Option<Dictionary>, plain: usize) -> Self {
        Self::at(method, dictionary, Position { plain, ..Position::default() })
    }

    /// A receiver that goes on where another was.
    pub(super) fn at(method: Method, dictionary: Option<Dictionary>, position: Position) -> Self {
        let Position { header, plain } = position;
        let state = State::plain(plain);
        Self { method, dictionary, decoder: None, header, state, begun: 0, settles: false }
    }

    /// From now on, it takes nothing more once it needs no context.
    pub(super) fn settle(&mut self) {
        self.settles = true;
    }

    /// Returns whether it takes nothing more.
    pub(super) fn is_settled(&self) -> bool {
        self.settles && self.decoder.is_none()
    }

    /// Returns where it is, if it needs no context there.
    pub(super) fn position(&self) -> Option<Position> {
        let plain = match self.state {
            _ if self.decoder.is_some() => return None,
            State::Between => 0,
            State::Plain(left) => left,
            State::Packed(..) => return None,
        };
        Some(Position { header: self.header.clone(), plain })
    }

    /// Returns whether the direction may end here.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.state, State::Between) && self.header.is_between()
    }

    /// Takes bytes from the front, and appends the program's, until nothing is left or enough came out.
    pub(super) fn unpack(
        &mut self,
        input: &mut VecDeque<Bytes>,
        out: &mut Vec<Bytes>,
    ) -> Result<(), MalformedCompression> {
        let (mut room, most) = (ROOM, out.len() + PARTS);
        self.begun = 0;
        while room > 0 && out.len() < most && self.begun < PIECES && !self.is_settled() {
            let has_more = matches!(self.state, State::Packed(_, true));
            if input.front().is_some_and(Bytes::is_empty) {
                input.pop_front();
                continue;
            }
            if input.is_empty() && !has_more {
                break;
            }
            let mut none = Bytes::new();
            let front = input.front_mut().unwrap_or(&mut none);
            room -= self.step(front, room, out)?;
        }
        Ok(())
    }

    /// Takes a part of these bytes, and makes at most `room`. Returns how many.
    fn step(
        &mut self,
        front: &mut Bytes,
        room: usize,
        out: &mut Vec<Bytes>,
    ) -> Result<usize, MalformedCompression> {
        match self.state {
            State::Between => {
                if let Some((kind, length)) = self.header.take(front.get_u8())? {
                    self.begin(kind, length)?;
                }
                Ok(0)
            }
            State::Plain(left) => {
                let plain = front.split_to(left.min(front.len()).min(room));
                let (left, made) = (left - plain.len(), plain.len());
                out.push(plain);
                self.state = State::plain(left);
                Ok(made)
            }
            State::Packed(left, _) => {
                let decoder = self.decoder.as_mut().ok_or(MalformedCompression)?;
                let packed = &front[..left.min(front.len())];
                let (taken, made) = SCRATCH.with_borrow_mut(|scratch| {
                    let decoded = decoder.decode(packed, &mut scratch[..room])?;
                    if decoded.1 > 0 {
                        out.push(Bytes::copy_from_slice(&scratch[..decoded.1]));
                    }
                    Ok(decoded)
                })?;
                front.advance(taken);
                let (left, has_more) = (left - taken, made == room);
                self.state =
                    if left > 0 || has_more { State::Packed(left, has_more) } else { State::Between };
                Ok(made)
            }
        }
    }

    fn begin(&mut self, kind: Kind, length: usize) -> Result<(), MalformedCompression> {
        self.begun += 1;
        self.state = match kind {
            Kind::Plain => State::Plain(length),
            Kind::Last => {
                self.decoder = None;
                State::plain(length)
            }
            Kind::Fresh => {
                // Making a context takes much longer than beginning one anew.
                match &mut self.decoder {
                    Some(decoder) => decoder.restart(self.method).map_err(|_| MalformedCompression)?,
                    none => {
                        let decoder = Decoder::new(self.method, self.dictionary.as_ref());
                        *none = Some(decoder.map_err(|_| MalformedCompression)?);
                    }
                }
                State::Packed(length, false)
            }
            Kind::Packed if self.decoder.is_none() => return Err(MalformedCompression),
            Kind::Packed => State::Packed(length, false),
        };
        Ok(())
    }
}
