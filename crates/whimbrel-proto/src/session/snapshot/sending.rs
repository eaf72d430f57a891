//! Saving the sent messages of a domain whose fate is not known.

use std::collections::BTreeMap;

use super::SendDomain;
use crate::session::config::{MAX_SPAN, MESSAGE_CHARGE};
use crate::session::send::fragments::FragmentList;
use crate::session::send::send_item::{CONFIRM, SendItem, SendState, TRACKED};
use crate::session::snapshot::codec::{BROKEN, In, Loaded, Out};
use crate::wire::{VARINT_MAX, data};

impl SendDomain {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self { bits: _, cross, next: _, items, given_up, parts, latest_reliable, .. } = self;
        out.flag(*cross);
        out.int(self.base());
        out.int(*latest_reliable);
        out.list(items.iter(), |out, item| item.save(out));
        out.list(given_up.iter(), |out, (number, length)| {
            out.int(*number);
            out.int((*length).into());
        });
        out.list(parts.iter(), |out, (number, list)| {
            out.int(*number);
            list.save(out);
        });
    }

    /// Loads the domain with this index in its stream. All live messages without parts count as lost.
    pub(in crate::session) fn load(input: &mut In, index: usize, tags: usize) -> Loaded<Self> {
        let cross = input.flag()?;
        if cross && index != 0 {
            return Err(BROKEN);
        }
        let base = input.at_most(VARINT_MAX / 2)?;
        let mut domain = Self::new(Self::bits_of(index), cross);
        domain.next = base;
        domain.latest_reliable = input.int()?;
        input.list(|input| {
            let item = SendItem::load(input, domain.next, tags)?;
            domain.next = item.end();
            if domain.next - base > MAX_SPAN {
                return Err(BROKEN);
            }
            domain.items.push_back(item);
            Ok(())
        })?;
        if domain.latest_reliable > domain.next {
            return Err(BROKEN);
        }
        let mut given_up = BTreeMap::new();
        input.list(|input| {
            let (number, length) = (input.int()?, input.small()?);
            let item = domain.get(number);
            let fits =
                item.is_some_and(|item| item.is_bundle() && matches!(item.state, SendState::Skipping(_)));
            given_up.insert(number, length);
            if fits { Ok(()) } else { Err(BROKEN) }
        })?;
        domain.given_up = given_up;
        domain.load_parts(input)?;
        domain.recount();
        Ok(domain)
    }

    fn bits_of(index: usize) -> u8 {
        [data::RELIABLE, data::RELIABLE | data::UNSEQUENCED, 0, data::UNSEQUENCED][index & 3]
    }

    fn load_parts(&mut self, input: &mut In) -> Loaded<()> {
        let mut last = None;
        input.list(|input| {
            let number = input.int()?;
            let item = self.get(number).filter(|item| item.is_live() && !item.is_bundle()).ok_or(BROKEN)?;
            let list = FragmentList::load(input, item.length.into())?;
            if last.replace(number) >= Some(number) {
                return Err(BROKEN);
            }
            self.parts.push_back((number, list));
            Ok(())
        })?;
        for (number, _) in &self.parts {
            let at = self.items.partition_point(|item| item.first <= *number) - 1;
            self.items[at].state = SendState::Flying;
        }
        Ok(())
    }

    /// Recomputes the sets that follow from the items.
    fn recount(&mut self) {
        for item in &self.items {
            if matches!(item.state, SendState::Skipping(_)) && !item.is_bundle() {
                self.skipping.insert(item.first, item.end());
            }
            if item.state != SendState::Done && item.has(CONFIRM) && item.has(TRACKED) {
                self.confirming.insert(item.first, item.end());
            }
        }
    }

    /// Returns how many messages were sent and not resolved.
    pub(in crate::session) fn outstanding(&self) -> u64 {
        let counted = |item: &&SendItem| {
            item.state != SendState::Done
                && !(item.is_bundle() && matches!(item.state, SendState::Skipping(_)))
        };
        let items: u64 = self.items.iter().filter(counted).map(|item| u64::from(item.count)).sum();
        items + self.given_up.len() as u64
    }

    pub(in crate::session) fn items(&self) -> impl Iterator<Item = &SendItem> {
        self.items.iter()
    }

    /// Returns the messages in parts of which some parts are lost.
    pub(in crate::session) fn lost_parts(&self) -> Vec<u64> {
        self.parts.iter().filter(|(_, list)| list.has_lost()).map(|(number, _)| *number).collect()
    }

    /// Returns everything given up and not answered by the peer, as number and charge.
    pub(in crate::session) fn unanswered(&self) -> Vec<(u64, u64)> {
        let single = self
            .items
            .iter()
            .filter(|item| !item.is_bundle() && matches!(item.state, SendState::Skipping(_)));
        let given_up =
            self.given_up.iter().map(|(number, length)| (*number, u64::from(*length) + MESSAGE_CHARGE));
        let mut all: Vec<_> = single.map(|item| (item.first, item.charge())).chain(given_up).collect();
        all.sort_unstable();
        all
    }
}
