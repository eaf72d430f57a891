//! Saving messages on their way out, and received messages.

use bytes::Bytes;

use super::codec::{BROKEN, In, Loaded, Out};
use crate::MessageId;
use crate::session::message::{Message, Outcome};
use crate::session::numbers::{Domain, TagSlot};
use crate::session::options::RouteClass;
use crate::session::send::send_item::{
    CONFIRM, DEAD, NO_TAG, PARTED, PPID, PRESSED, RELIABLE, SendItem, SendState, TRACKED,
};

const OUTCOMES: [Outcome; 7] = [
    Outcome::Delivered,
    Outcome::Taken,
    Outcome::Expired,
    Outcome::Cancelled,
    Outcome::Replaced,
    Outcome::Lost,
    Outcome::Unknown,
];
const LIVE: u8 = 0x10;
const DONE: u8 = 0x11;

pub(in crate::session) fn save_outcome(outcome: Outcome, out: &mut Out<'_>) {
    out.byte(OUTCOMES.iter().position(|known| *known == outcome).unwrap_or(0) as u8);
}

pub(in crate::session) fn load_outcome(input: &mut In) -> Loaded<Outcome> {
    let index = usize::from(input.byte()?);
    OUTCOMES.get(index).copied().ok_or(BROKEN)
}

impl SendItem {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self { payload, id, first: _, count, expires, tag, ppid, length, .. } = self;
        match self.state {
            SendState::Flying | SendState::Lost => out.byte(LIVE),
            SendState::Done => out.byte(DONE),
            SendState::Skipping(why) => save_outcome(why, out),
        }
        out.byte(self.flags);
        out.byte(self.priority);
        out.int(id.0);
        out.int((*count).into());
        out.int((*length).into());
        out.int(self.reliable_gap.into());
        out.int(if *tag == NO_TAG { 0 } else { u64::from(tag.0) + 1 });
        out.int((*ppid).into());
        out.deadline(*expires);
        out.option(self.route, |out, route| out.byte(route.0));
        out.bytes(payload);
    }

    /// Loads an item whose first number is `first`, in a session with this many tags.
    pub(in crate::session) fn load(input: &mut In, first: u64, tags: usize) -> Loaded<Self> {
        let state = match input.byte()? {
            LIVE => SendState::Lost,
            DONE => SendState::Done,
            why => SendState::Skipping(OUTCOMES.get(usize::from(why)).copied().ok_or(BROKEN)?),
        };
        let (flags, priority) = (input.byte()?, input.byte()?);
        let id = MessageId(input.int()?);
        let (count, length, reliable_gap) = (input.small()?, input.small()?, input.small()?);
        let tag = match input.at_most(tags as u64)? {
            0 => NO_TAG,
            slot => TagSlot(slot as u32 - 1),
        };
        let (ppid, expires) = (input.small()?, input.deadline()?);
        let route = input.option(|input| input.byte().map(RouteClass))?;
        let payload = input.bytes()?;
        let item = Self {
            payload,
            id,
            first,
            count,
            expires,
            tag,
            ppid,
            length,
            reliable_gap,
            priority,
            flags,
            route,
            state,
            copies: 0,
            repeats: 0,
        };
        if item.is_sound() { Ok(item) } else { Err(BROKEN) }
    }

    fn is_sound(&self) -> bool {
        let sound =
            self.count > 0 && self.flags & !(RELIABLE | TRACKED | CONFIRM | PPID | PARTED | PRESSED) == 0;
        if !sound || (self.is_bundle() && !self.is_plain()) || u64::from(self.reliable_gap) > self.first + 1 {
            return false;
        }
        match self.state {
            SendState::Flying | SendState::Lost if self.is_bundle() => self.is_run(),
            SendState::Flying | SendState::Lost => self.payload.len() == self.length as usize,
            SendState::Skipping(_) | SendState::Done => self.payload.is_empty(),
        }
    }

    /// Returns whether a bundle's payload holds exactly the messages it should.
    fn is_run(&self) -> bool {
        let (mut at, mut sum, mut count) = (0usize, 0usize, 0u32);
        while at < self.payload.len() {
            let (width, length) = match self.payload[at..] {
                [short, ..] if short < 0x40 => (1, usize::from(short)),
                [high, low, ..] if high < 0x80 => (2, usize::from(high & 0x3f) << 8 | usize::from(low)),
                _ => return false,
            };
            at += width + length;
            sum += length;
            count += 1;
        }
        at == self.payload.len() && count == self.count && sum == self.length as usize
    }

    pub(in crate::session) fn is_dead(&self) -> bool {
        self.has(DEAD)
    }
}

impl Message {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        let Self { payload, stream, id, tag, ppid, service, priority, early, confirm, domain } = self;
        out.int(stream.0);
        out.int(*id);
        out.optional_int(tag.map(|tag| tag.0));
        out.optional_int(ppid.map(u64::from));
        out.byte(service.index() as u8);
        out.byte(*priority);
        out.flag(*early);
        out.flag(*confirm);
        out.byte(domain.0);
        out.bytes(payload);
    }

    pub(in crate::session) fn load(input: &mut In) -> Loaded<Self> {
        let (stream, id) = (input.stream()?, input.int()?);
        let (tag, ppid) = (input.option(In::tag)?, input.option(In::small)?);
        let (service, priority) = (input.service()?, input.byte()?);
        let (early, confirm) = (input.flag()?, input.flag()?);
        let domain = Domain(input.byte()?);
        if domain.index() >= Domain::ALL.len() {
            return Err(BROKEN);
        }
        let payload: Bytes = input.bytes()?;
        Ok(Self { payload, stream, id, tag, ppid, service, priority, early, confirm, domain })
    }
}
