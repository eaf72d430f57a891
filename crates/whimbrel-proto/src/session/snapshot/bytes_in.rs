//! Saving bytes received and not read.

use bytes::BytesMut;

use super::{Arrived, BytesEnd, BytesIn};
use crate::session::receive::assembly::Assembly;
use crate::session::receive::opening::{MAX_OPENING, StreamOpening};
use crate::session::snapshot::codec::{BROKEN, In, Loaded, Out};
use crate::wire::VARINT_MAX;

/// The longest encoding of the length before an opening, bytes.
const LONGEST_LENGTH: usize = 8;

impl StreamOpening {
    fn save(&self, out: &mut Out<'_>) {
        match self {
            Self::Unknown => out.byte(0),
            Self::None => out.byte(1),
            Self::Awaited => out.byte(2),
            Self::Here(opening) => {
                out.byte(3);
                out.bytes(opening);
            }
        }
    }

    fn load(input: &mut In) -> Loaded<Self> {
        Ok(match input.byte()? {
            0 => Self::Unknown,
            1 => Self::None,
            2 => Self::Awaited,
            3 => {
                let opening = input.bytes()?;
                if opening.len() > MAX_OPENING {
                    return Err(BROKEN);
                }
                Self::Here(Box::new(opening))
            }
            _ => return Err(BROKEN),
        })
    }
}

impl BytesIn {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self { arrived, next, highest, read, ending: _, stop_acked: _, told, opening, has_opening } =
            self;
        let fresh = Arrived::at(*next);
        let Arrived { ready, ready_bytes: _, tail, assembly } = arrived.as_deref().unwrap_or(&fresh);
        let mut unread = BytesMut::new();
        ready.iter().for_each(|bytes| unread.extend_from_slice(bytes));
        unread.extend_from_slice(tail);
        for value in [*next, *highest, *read] {
            out.int(value);
        }
        let BytesEnd { final_size, reset, stopped } = self.ending();
        for value in [final_size, reset, stopped] {
            out.optional_int(value);
        }
        out.flag(*told);
        out.bytes(&unread);
        assembly.save(out);
        out.flag(*has_opening);
        opening.save(out);
    }

    pub(in crate::session) fn load(input: &mut In) -> Loaded<Self> {
        let [next, highest, read] =
            [input.int()?, input.at_most(VARINT_MAX / 2)?, input.at_most(VARINT_MAX / 2)?];
        let [final_size, reset, stopped] =
            [input.optional_int()?, input.optional_int()?, input.optional_int()?];
        let (told, unread) = (input.flag()?, input.bytes()?);
        let consistent = next <= highest
            && read <= highest
            && final_size.is_none_or(|size| highest <= size)
            && (reset.is_some() || stopped.is_some() || read + unread.len() as u64 == next);
        if !consistent {
            return Err(BROKEN);
        }
        let assembly = Assembly::load(input, next, highest)?;
        let tail = BytesMut::from(&unread[..]);
        // Before format 4 there were no openings.
        let (has_opening, opening) = if input.is_since(4) {
            (input.flag()?, StreamOpening::load(input)?)
        } else {
            (false, StreamOpening::None)
        };
        if opening.is_awaited() && (read > 0 || unread.len() > MAX_OPENING + LONGEST_LENGTH) {
            return Err(BROKEN);
        }
        let known = final_size.is_some() || reset.is_some() || stopped.is_some();
        let ending = known.then(|| Box::new(BytesEnd { final_size, reset, stopped }));
        let mut half = Self {
            arrived: Some(Box::new(Arrived { tail, assembly, ..Arrived::default() })),
            next,
            highest,
            read,
            ending,
            told,
            opening,
            has_opening,
            ..Self::default()
        };
        half.trim();
        Ok(half)
    }

    /// Returns whether there is something the application has not been told of.
    pub(in crate::session) fn has_news(&self) -> bool {
        !self.told && !self.opening.is_awaited() && (self.is_readable() || self.is_over())
    }
}
