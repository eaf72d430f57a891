//! Reading messages, and granting the credit they used again.

use super::batch::Batch;
use crate::mutants::{Mutant, planted};
use crate::session::account::credit::Terms;
use crate::session::account::pace::Pace;
use crate::session::account::stalls::Whose;
use crate::session::chronicle::Note;
use crate::session::config::{MAX_NOTICES, MESSAGE_CHARGE};
use crate::session::message::{Message, SessionEvent};
use crate::session::numbers::StreamSlot;
use crate::session::options::CreditPolicy;
use crate::session::send::out_blocks;
use crate::session::send::out_blocks::Notice;
use crate::session::state::Session;
use crate::session::stream::WHOLE;
use crate::{StreamId, Time};

impl Session {
    /// Returns the next message of the shared inbox.
    pub fn recv(&mut self, now: Time) -> Option<Message> {
        let _ = now;
        let message = self.incoming.inbox.pop()?;
        self.on_read(message.stream, message.payload.len() as u64 + MESSAGE_CHARGE, 1);
        self.on_inbox_lighter();
        Some(message)
    }

    /// Appends up to `max` messages of the shared inbox to `out` and returns how many.
    pub fn recv_many(&mut self, now: Time, out: &mut impl Extend<Message>, max: usize) -> usize {
        let _ = now;
        let mut inbox = std::mem::take(&mut self.incoming.inbox);
        let (mut stream, mut messages, mut charge) = (StreamId(0), 0, 0);
        let count = inbox.read(out, max, |message| {
            if message.stream != stream {
                self.on_read(stream, charge, messages);
                (stream, messages, charge) = (message.stream, 0, 0);
            }
            messages += 1;
            charge += message.payload.len() as u64 + MESSAGE_CHARGE;
        });
        self.on_read(stream, charge, messages);
        self.incoming.inbox = inbox;
        self.on_inbox_lighter();
        count
    }

    /// Adds up to `max` messages of the shared inbox to `out` and returns how many.
    pub fn recv_batch(&mut self, now: Time, out: &mut Batch, max: usize) -> usize {
        let _ = now;
        let mut inbox = std::mem::take(&mut self.incoming.inbox);
        let count = inbox.move_out(max, |unread, stream, messages, bytes| {
            out.add(unread);
            self.on_read(stream, bytes + messages * MESSAGE_CHARGE, messages);
        });
        self.incoming.inbox = inbox;
        self.on_inbox_lighter();
        count
    }

    /// Gives the stream's messages a queue of their own, read by [`Session::recv_on`]. Unread messages move there.
    /// Returns whether the stream is open.
    pub fn claim_stream(&mut self, id: StreamId) -> bool {
        let Some(slot) = self.streams.find(id) else { return false };
        let Some(stream) = self.streams.held_mut(slot) else { return false };
        if !stream.claimed {
            stream.claimed = true;
            if let Some(halves) = stream.content.messages_mut() {
                halves.inbox = self.incoming.inbox.split_stream(id);
            }
            self.weigh(slot);
        }
        true
    }

    /// Returns the stream's messages to the shared inbox. Unread messages move there, except those of which only the
    /// latest were wanted, which are discarded. From now on every message waits to be read.
    pub fn release_stream(&mut self, id: StreamId) {
        let Some(slot) = self.streams.find(id) else { return };
        let Some(stream) = self.streams.held_mut(slot) else { return };
        if !std::mem::take(&mut stream.claimed) {
            return;
        }
        // A byte stream and one not known yet may be claimed and released, too: nothing is moved then.
        let Some(halves) = stream.content.messages_mut() else { return };
        halves.options.credit = CreditPolicy::Wait;
        let discarded = halves.latest.take().map_or((0, 0), |latest| latest.len());
        let was_empty = self.incoming.inbox.is_empty();
        self.incoming.inbox.append(&mut halves.inbox);
        self.weigh(slot);
        if was_empty
            && !self.incoming.inbox.is_empty()
            && !std::mem::replace(&mut self.incoming.readable_told, true)
        {
            self.accounting.events.push_back(SessionEvent::Readable);
        }
        self.on_discarded(discarded);
        self.on_quiet(slot);
    }

    /// Returns the next message of a claimed stream.
    pub fn recv_on(&mut self, now: Time, id: StreamId) -> Option<Message> {
        let _ = now;
        let slot = self.streams.find(id)?;
        let halves = self.streams.held_mut(slot)?.content.messages_mut()?;
        if let Some(message) = halves.latest.as_mut().and_then(|latest| latest.pop_in_turn()) {
            // Its credit was granted again when it arrived.
            self.accounting.stats.unread = self.accounting.stats.unread.saturating_sub(1);
            self.on_lighter(slot);
            return Some(message);
        }
        let message = halves.inbox.pop()?;
        if let Some(latest) = &mut halves.latest {
            latest.on_other_read();
        }
        self.on_read(id, message.payload.len() as u64 + MESSAGE_CHARGE, 1);
        self.on_lighter(slot);
        Some(message)
    }

    #[inline]
    fn on_read(&mut self, id: StreamId, charge: u64, messages: u64) {
        self.accounting.stats.unread = self.accounting.stats.unread.saturating_sub(messages);
        if planted(Mutant::CreditNeverReturned) {
            return;
        }
        match self.streams.find(id) {
            Some(slot) => {
                self.consume(slot, charge);
                self.on_quiet(slot);
            }
            // The message was put back after it was read, and its stream has ended since.
            None => self.account.received.consume(charge),
        }
    }

    /// Counts credit as used up, so that it may be granted again.
    #[inline]
    pub(in crate::session) fn consume(&mut self, slot: StreamSlot, charge: u64) {
        self.account.received.consume(charge);
        let Some(stream) = self.streams.held_mut(slot) else { return };
        if stream.recv_credit.consume(charge) {
            self.renew(slot);
        }
    }

    /// Checks a stream of which half of the window arrived unread. If what arrived waits for a lost packet or the rest
    /// of a message, the reader is not to blame, and more is granted. Otherwise the reader holds the peer up, and the
    /// stream stalls once all credit is used up.
    #[cold]
    pub(in crate::session) fn on_unread(&mut self, slot: StreamSlot) {
        let key = self.streams.key(slot, WHOLE);
        if !self.is_readable(key) {
            self.renew(slot);
        }
        let Some(stream) = self.streams.held_mut(slot) else { return };
        stream.recv_credit.calm();
        if stream.recv_credit.is_used_up() {
            self.account.stalls.begin(self.clock, key, Whose::Ours);
        }
    }

    /// Renews a stream's window after a part of it was read.
    fn renew(&mut self, slot: StreamSlot) {
        let key = self.streams.key(slot, WHOLE);
        let stalled = self.account.stalls.end(key, Whose::Ours);
        let readable = self.is_readable(key);
        let Some(stream) = self.streams.held_mut(slot) else { return };
        // Skipped and lost messages count as read too, but do not show that the reader is fast.
        let behind = readable && stream.recv_credit.unread() > stream.recv_credit.window() / 2;
        let pace = self.account.grant_delay.pace(self.clock, stream.recv_credit.renewed());
        let pace = if behind && matches!(pace, Pace::Faster(_)) { Pace::Same } else { pace };
        // Credit that nobody is short of may stay where it is.
        let pace = if pace == Pace::Slower && !self.account.reserve.is_short() { Pace::Same } else { pace };
        let share = self.config.share_of(stream.id, &self.peer);
        let most = self.config.widest(stream.content.window());
        let (id, before) = (stream.id, stream.recv_credit.window());
        if stream
            .recv_credit
            .renew(self.clock, Terms { share, most, pace, reserve: &mut self.account.reserve })
        {
            self.out_blocks.notify(Notice::MaxStreamData(key));
            if stalled {
                self.chronicle.note(|| Note::Moves { stream: id, reader: Whose::Ours });
            }
            let window = stream.recv_credit.window();
            if window < before && self.account.reserve.is_short() {
                self.chronicle.note(|| Note::WindowShrinks { stream: id, from: before, to: window });
            }
        }
    }

    /// Handles that everything a stream will carry has arrived.
    pub(in crate::session) fn close_credit(&mut self, slot: StreamSlot) {
        if self.streams.held_mut(slot).is_some_and(|stream| stream.recv_credit.close()) {
            self.renew(slot);
        }
    }

    /// Confirms a message whose sender asked for it ([`Message::confirm`]). Does nothing for other messages.
    pub fn confirm(&mut self, message: &Message) {
        if !message.confirm || self.out_blocks.taken.len() >= MAX_NOTICES {
            return;
        }
        if let Some(slot) = self.streams.find(message.stream) {
            let key = self.streams.key(slot, message.domain);
            out_blocks::push(&mut self.out_blocks.taken, key, message.id, 1, 0);
        }
    }
}
