//! Saving bytes that arrive in any order.

use super::Assembly;
use crate::session::snapshot::codec::{BROKEN, In, Loaded, Out};

impl Assembly {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self { base: _, buf: _, have, received: _, far: _ } = self;
        out.int(have.len() as u64);
        for (from, to) in have.within(0, u64::MAX) {
            out.int(from);
            out.bytes(&self.copy(from, to));
        }
    }

    /// Returns a copy of received bytes, wherever they are kept.
    fn copy(&self, from: u64, to: u64) -> Vec<u8> {
        let start = (from - self.base) as usize;
        let near = self.buf.get(start..self.buf.len().min((to - self.base) as usize)).unwrap_or_default();
        let mut copy = near.to_vec();
        copy.resize((to - from) as usize, 0);
        if let Some(far) = &self.far {
            far.copy(from, &mut copy);
        }
        copy
    }

    /// Loads bytes from `base` on. Nothing may lie at or beyond `end`.
    pub(in crate::session) fn load(input: &mut In, base: u64, end: u64) -> Loaded<Self> {
        let mut assembly = Self::at(base);
        let mut reached = base;
        input.list(|input| {
            let (from, bytes) = (input.int()?, input.bytes()?);
            let to = from.checked_add(bytes.len() as u64).ok_or(BROKEN)?;
            if from < reached || to > end || bytes.is_empty() || !input.affords(to - reached) {
                return Err(BROKEN);
            }
            reached = to;
            assembly.insert(from, &bytes, to).map_err(|_| BROKEN)
        })?;
        Ok(assembly)
    }
}
