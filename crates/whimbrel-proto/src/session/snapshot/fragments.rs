//! Saving a message or byte stream that travels in parts.

use super::{Fragment, FragmentList, FragmentState};
use crate::session::snapshot::codec::{BROKEN, In, Loaded, Out};

impl FragmentList {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self { fragments, sent, lost: _ } = self;
        out.int(*sent);
        out.list(fragments.iter(), |out, fragment| {
            out.int(fragment.len.into());
            out.flag(fragment.state == FragmentState::Acked);
        });
    }

    /// Loads the fragments of something `length` bytes long. Those not acknowledged count as lost.
    pub(in crate::session) fn load(input: &mut In, length: u64) -> Loaded<Self> {
        let sent = input.at_most(length)?;
        let mut parts: Vec<(u32, bool)> = Vec::new();
        let mut total = 0u64;
        input.list(|input| {
            let (len, acked) = (input.small()?, input.flag()?);
            total += u64::from(len);
            if len == 0 || total > sent {
                return Err(BROKEN);
            }
            parts.push((len, acked));
            Ok(())
        })?;
        if parts.first().is_some_and(|(_, acked)| *acked) {
            return Err(BROKEN);
        }
        let mut list = Self { sent, ..Self::default() };
        let mut offset = sent - total;
        for (len, acked) in parts {
            let state = if acked { FragmentState::Acked } else { FragmentState::Lost };
            if !acked {
                list.lost.push_back(offset);
            }
            list.fragments.push_back(Fragment { offset, len, state });
            offset += u64::from(len);
        }
        Ok(list)
    }

    pub(in crate::session) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }
}
