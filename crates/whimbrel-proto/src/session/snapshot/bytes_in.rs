//! Bytes received and not read.

use bytes::BytesMut;

use super::BytesIn;
use crate::session::receive::assembly::Assembly;
use crate::session::snapshot::codec::{BROKEN, In, Loaded, Out};
use crate::wire::VARINT_MAX;

impl BytesIn {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self {
            ready,
            ready_bytes: _,
            tail,
            next,
            assembly,
            highest,
            read,
            final_size,
            reset,
            stopped,
            stop_acked: _,
            told,
        } = self;
        let mut unread = BytesMut::new();
        ready.iter().for_each(|bytes| unread.extend_from_slice(bytes));
        unread.extend_from_slice(tail);
        for value in [*next, *highest, *read] {
            out.int(value);
        }
        for value in [*final_size, *reset, *stopped] {
            out.optional_int(value);
        }
        out.flag(*told);
        out.bytes(&unread);
        assembly.save(out);
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
        Ok(Self { tail, next, assembly, highest, read, final_size, reset, stopped, told, ..Self::default() })
    }

    /// There is something that the application does not know.
    pub(in crate::session) fn has_news(&self) -> bool {
        !self.told && (!self.tail.is_empty() || self.is_over())
    }
}
