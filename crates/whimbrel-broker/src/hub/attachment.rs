//! A subscription that is attached.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::{Coverage, SubscriptionId, Told};
use whimbrel_pubsub::frame::{Recover, Refusal, RefusalCode, Slow, Start};
use whimbrel_pubsub::message::ChannelId;

use super::alike::{Alike, Form, Sink};
use super::attached::ClientId;
use super::core::Hub;
use super::register::{Client, SubscriberRecord, SubscriptionKind};
use super::room::Room;
use super::signal::Signal;
use crate::Time;
use crate::buffer::Channel;
use crate::matching::Subscription;
use crate::roaming::{From, Read, Reader, Wanted, Wish};
use crate::selection::Selection;

/// A request to attach a subscription.
#[derive(Clone, Debug)]
pub struct Attach {
    /// Its filter and selector.
    pub selection: Selection,
    /// The way in which it recovers missed messages.
    pub recover: Recover,
    /// Its treatment if it is too slow.
    pub slow: Slow,
    /// Its starting point.
    pub start: Start,
    /// The name and generation of its state, if it has one.
    pub state: Option<(SubscriptionId, u64)>,
    /// The form in which it is told things.
    pub form: Form,
}

/// The most arrivals that are looked at before publishers may go on: they wait as long as a channel is read.
const SLICE: u32 = 64;
/// The longest that a subscription reads before others get their turn, whatever its selector costs.
const LONGEST_TURN: Duration = Duration::from_millis(5);

/// A subscription that is attached. Dropping it detaches it.
#[derive(Debug)]
pub struct Attachment {
    hub: Arc<Hub>,
    name: Subscription,
    state: Option<SubscriptionId>,
    signal: Arc<Signal>,
    selection: Arc<Selection>,
    /// Its entry for those who run the broker.
    record: Option<(u64, Arc<SubscriberRecord>)>,
    /// One for each channel that may have messages for it.
    readers: Vec<ChannelReader>,
    /// The reader whose turn it is.
    turn: usize,
}

/// A subscription's part in one channel.
#[derive(Debug)]
struct ChannelReader {
    id: ChannelId,
    reader: Reader,
    alike: Arc<Alike>,
    /// Whether what it is told now is noted for those who are alike.
    notes: bool,
}

/// The result of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The steps are used up, or enough was told. There may be more.
    More,
    /// There is nothing more to read now.
    Idle,
    /// The subscriber is too slow, and wished to be sent away then.
    TooSlow,
}

impl Hub {
    /// Attaches a subscription of `client`.
    ///
    /// # Errors
    /// No channel can have what it selects, a limit is reached, or its state was attached by another device.
    pub fn attach(self: &Arc<Self>, client: ClientId, attach: Attach) -> Result<Attachment, Refusal> {
        self.attach_with(client, attach, Arc::default())
    }

    /// Attaches a subscription of `client`. Whoever waits for `notify` is woken for it, as for others with the same.
    ///
    /// # Errors
    /// As [`Hub::attach`].
    pub fn attach_with(
        self: &Arc<Self>,
        client: ClientId,
        attach: Attach,
        notify: Arc<Notify>,
    ) -> Result<Attachment, Refusal> {
        self.attach_beside(client, attach, notify, &[])
    }

    /// Attaches a subscription of `client` that reads all channels but these, which something else reads for it.
    ///
    /// # Errors
    /// As [`Hub::attach`].
    pub fn attach_beside(
        self: &Arc<Self>,
        client: ClientId,
        attach: Attach,
        notify: Arc<Notify>,
        except: &[ChannelId],
    ) -> Result<Attachment, Refusal> {
        let Attach { selection, recover, slow, start, state, form } = attach;
        if !self.rooms.iter().any(|room| room.may_have(&selection)) {
            return Err(self.no_channel_for(selection.filter()));
        }
        let (name, signal) = self.attached().enter(client, notify);
        let (hub, selection) = (Arc::clone(self), Arc::new(selection));
        // From here on, dropping it takes it out again.
        let mut attachment = Attachment {
            hub,
            name,
            state: None,
            signal,
            selection,
            record: None,
            readers: Vec::new(),
            turn: 0,
        };
        if let Some((id, generation)) = state {
            self.attached().claim(id, generation, name)?;
            attachment.state = Some(id);
        }
        let selection = Arc::clone(&attachment.selection);
        let entered = self.table_mut().insert(name, selection.filter(), selection.selector().cloned());
        entered.map_err(|refused| Refusal::new(RefusalCode::Limit, refused))?;
        // From here on it is woken; what arrived before is read from the start.
        attachment.readers = self.readers(&selection, except, form, recover, slow, start);
        attachment.signal.wake();
        Ok(attachment)
    }

    fn readers(
        &self,
        selection: &Arc<Selection>,
        except: &[ChannelId],
        form: Form,
        recover: Recover,
        slow: Slow,
        start: Start,
    ) -> Vec<ChannelReader> {
        let rooms = self.rooms.iter().filter(|room| room.may_have(selection) && !except.contains(&room.id()));
        let read = |room: &Room| {
            let id = room.id();
            let wanted = Wanted { picks: Arc::clone(selection) as _, reach: room.reach(selection) };
            let from = match &start {
                Start::Live => From::Live,
                Start::Held => From::Held,
                Start::Coverage(coverage) => From::Coverage(coverage.of(id).cloned().unwrap_or_default()),
            };
            let wish = Wish { wanted, from, recover, slow };
            let now = self.clock.time();
            let channel = room.read();
            let reader = Reader::attach(&channel, wish, now);
            let is_waiting = reader.is_waiting(&channel);
            drop(channel);
            if is_waiting {
                room.write().ask_at_once(now);
            }
            ChannelReader { id, reader, alike: self.kinds().of(id, selection, form), notes: false }
        };
        let mut readers: Vec<_> = rooms.map(read).collect();
        // Most have one, and many of them are idle.
        readers.shrink_to_fit();
        readers
    }
}

impl Attachment {
    /// Enters it for those who run the broker, as this client's. One that is not entered is in no report.
    pub fn introduce(&mut self, client: &Arc<Client>, kind: SubscriptionKind) {
        let (channels, since) = (self.channels(), self.hub.clock.time());
        let (client, signal) = (Arc::clone(client), Arc::clone(&self.signal));
        let record =
            SubscriberRecord::new(client, kind, &self.selection, signal, channels.into_iter(), since);
        self.record = Some(self.hub.register().subscribe(record));
        self.on_read(false);
    }

    /// Its record, if it was introduced.
    pub fn record(&self) -> Option<Arc<SubscriberRecord>> {
        self.record.as_ref().map(|(_, record)| Arc::clone(record))
    }

    /// Has its places known.
    fn on_read(&self, is_idle: bool) {
        if let Some((_, record)) = &self.record {
            record.on_read(self.readers.iter().map(|part| part.reader.place()), is_idle);
        }
    }

    /// The channels that may have messages for it.
    pub fn channels(&self) -> Vec<ChannelId> {
        self.readers.iter().map(|part| part.id).collect()
    }

    /// Waits until there may be something to read.
    pub async fn woken(&self) {
        self.signal.woken().await;
    }

    /// Whether it was woken since it was read.
    pub fn is_ready(&self) -> bool {
        self.signal.is_ready()
    }

    /// Whether its state was attached again since, so that it has to end.
    pub fn is_superseded(&self) -> bool {
        self.signal.is_superseded()
    }

    /// Whether it still reads what was published before it came.
    pub fn is_recovering(&self) -> bool {
        self.readers.iter().any(|part| part.reader.is_recovering())
    }

    /// Reads on, looking at no more than `steps` arrivals, until `sink` says that it is enough. Without `may_recover` only what is new is
    /// read.
    pub fn read(&mut self, may_recover: bool, mut steps: u32, sink: &mut impl Sink) -> Progress {
        self.signal.look();
        let hub = Arc::clone(&self.hub);
        let (mut is_live, began) = (false, hub.clock.time());
        let record = self.record.as_ref().map(|(_, record)| Arc::clone(record));
        let record = record.as_deref();
        let progress = 'all: {
            for _ in 0..self.readers.len() {
                let at = self.turn % self.readers.len();
                let part = &mut self.readers[at];
                let Some(room) = hub.room(part.id) else { continue };
                let mut channel = room.read();
                let mut now = hub.clock.time();
                let mut slice = SLICE.min(steps);
                steps -= slice;
                let mut heard = Heard { place: at, record, is_live: false };
                let ended = loop {
                    match part.read(&channel, now, may_recover, &mut slice, sink, &mut heard) {
                        Part::Enough => break Some(Progress::More),
                        Part::More if steps == 0 || now.since(began) >= LONGEST_TURN => {
                            break Some(Progress::More);
                        }
                        Part::More => {
                            // A publisher that waits comes first.
                            drop(channel);
                            channel = room.read();
                            now = hub.clock.time();
                            slice = SLICE.min(steps);
                            steps -= slice;
                        }
                        Part::TooSlow => break Some(Progress::TooSlow),
                        Part::Idle => break None,
                    }
                };
                part.keep(sink, false);
                is_live |= heard.is_live;
                if let Some(progress) = ended {
                    break 'all progress;
                }
                steps += slice;
                self.turn = at + 1;
            }
            Progress::Idle
        };
        if is_live {
            hub.turns.on_live();
        }
        self.on_read(progress == Progress::Idle);
        progress
    }

    /// Has all that is settled told at the next reading, without a message.
    pub fn tell_covers(&mut self) {
        for part in &mut self.readers {
            if let Some(room) = self.hub.room(part.id) {
                part.reader.tell_covers(&room.read());
            }
        }
    }

    /// Returns the coverage of everything settled so far, told or not.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        for part in &self.readers {
            if let Some(room) = self.hub.room(part.id)
                && let Ok(entry) = coverage.entry(part.id)
            {
                *entry = part.reader.coverage(&room.read());
            }
        }
        coverage
    }
}

/// The things that a subscription hears of one channel in a turn.
struct Heard<'a> {
    /// The channel, by its place among those of the subscription.
    place: usize,
    record: Option<&'a SubscriberRecord>,
    /// Whether it heard something that was not recovered.
    is_live: bool,
}

impl Heard<'_> {
    fn on_told(&mut self, told: &Told) {
        self.is_live |= matches!(told, Told::Delivery(delivery) if !delivery.recovered);
        if let Some(record) = self.record {
            record.on_told(self.place, told);
        }
    }

    /// It takes deliveries of another subscription.
    fn on_passed(&mut self, deliveries: u64) {
        self.is_live = true;
        if let Some(record) = self.record {
            record.on_passed(self.place, deliveries);
        }
    }
}

/// The result of reading in one channel.
enum Part {
    /// The sink has enough.
    Enough,
    /// The steps are used up.
    More,
    /// There is nothing more to read now.
    Idle,
    /// The subscriber is too slow.
    TooSlow,
}

impl ChannelReader {
    /// Reads on while `slice` lasts. What others who are alike were told already is taken from them, and what they may want is noted.
    fn read(
        &mut self,
        channel: &Channel,
        now: Time,
        may_recover: bool,
        slice: &mut u32,
        sink: &mut impl Sink,
        heard: &mut Heard<'_>,
    ) -> Part {
        loop {
            if !self.notes && sink.shares() && self.alike.are_several() {
                while let Some(shared) = self.alike.pass(channel, &mut self.reader) {
                    heard.on_passed(shared.deliveries());
                    if !sink.repeat(shared.bytes()) {
                        return Part::Enough;
                    }
                }
                self.notes = self.reader.begin_passage(channel);
                if self.notes {
                    sink.begin();
                }
            }
            match self.reader.read(channel, now, may_recover, slice) {
                Read::Told(told) => {
                    heard.on_told(&told);
                    let has_room = sink.tell(self.id, told);
                    if self.notes && sink.is_whole() {
                        self.keep(sink, true);
                    }
                    if !has_room {
                        return Part::Enough;
                    }
                }
                Read::More => return Part::More,
                Read::Idle => return Part::Idle,
                Read::TooSlow => return Part::TooSlow,
            }
        }
    }

    /// Keeps what was noted for others.
    fn keep(&mut self, sink: &mut impl Sink, is_whole: bool) {
        if std::mem::take(&mut self.notes)
            && let (Some(bytes), Some(passage)) = (sink.end(), self.reader.end_passage())
        {
            self.alike.keep(passage, bytes, is_whole);
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Some((number, _)) = self.record {
            self.hub.register().unsubscribe(number);
        }
        self.hub.table_mut().remove(self.name);
        self.hub.attached().remove(self.name, self.state);
    }
}
