//! Saving the session's own fields and its streams, and resuming after a restore.

use crate::session::receive::scattered::Scattered;
use std::sync::Arc;

use super::codec::{BROKEN, In, Loaded, Out};
use crate::mutants::{Mutant, planted};
use crate::session::account::credit::{ReceivedCredit, RecvCredit, SendCredit};
use crate::session::config::{MESSAGE_CHARGE, PeerLimits, SessionConfig};
use crate::session::content::{Content, MessageHalves};
use crate::session::end_out::EndOut;
use crate::session::message::{DomainKey, Message, Outcome, SessionEvent, StreamKind};
use crate::session::numbers::{Domain, StreamSlot};
use crate::session::options::{CreditPolicy, RouteClass, StreamOptions};
use crate::session::receive::bytes_in::BytesIn;
use crate::session::receive::latest::Latest;
use crate::session::receive::receiving::RecvDomain;
use crate::session::send::accounting::{Accounting, MessagePlace};
use crate::session::send::bytes_out::BytesOut;
use crate::session::send::lane::snapshot::SavedLane;
use crate::session::send::out_blocks;
use crate::session::send::out_blocks::Notice;
use crate::session::send::retransmit::Lost;
use crate::session::send::send_item::{NO_TAG, RELIABLE, SendState};
use crate::session::send::sending::SendDomain;
use crate::session::send::skip_answers::SkipAnswers;
use crate::session::state::Session;
use crate::session::stream::{Stream, WHOLE};
use crate::session::stream_counts::StreamCounts;
use crate::wire::VARINT_MAX;
use crate::{MessageId, Side, StreamId, Time};

fn save_config(config: &SessionConfig, out: &mut Out<'_>) {
    let SessionConfig {
        max_message,
        session_window,
        stream_window,
        stream_share,
        max_streams,
        send_queue_messages,
        send_queue_bytes,
        stream_send_buffer,
        gap_wait,
        ageing,
        cross_sequencing,
        small_message,
        max_unconfirmed,
        max_tags,
        urgent_priority,
    } = *config;
    for value in [
        max_message,
        session_window,
        stream_window,
        stream_share,
        max_streams,
        send_queue_bytes,
        stream_send_buffer,
    ] {
        out.int(value);
    }
    for value in [send_queue_messages, small_message, max_unconfirmed, max_tags] {
        out.int(value as u64);
    }
    out.duration(gap_wait);
    out.duration(ageing);
    out.flag(cross_sequencing);
    out.byte(urgent_priority);
}

fn load_config(input: &mut In) -> Loaded<SessionConfig> {
    const MOST: u64 = VARINT_MAX / 8;
    Ok(SessionConfig {
        max_message: input.at_most(MOST)?,
        session_window: input.at_most(MOST)?,
        stream_window: input.at_most(MOST)?,
        stream_share: input.at_most(MOST)?,
        max_streams: input.at_most(MOST)?,
        send_queue_bytes: input.at_most(MOST)?,
        stream_send_buffer: input.at_most(MOST)?,
        send_queue_messages: input.size()?,
        small_message: input.at_most(u32::MAX.into())? as usize,
        max_unconfirmed: input.size()?,
        max_tags: input.size()?,
        gap_wait: input.duration()?,
        ageing: input.duration()?,
        cross_sequencing: input.flag()?,
        urgent_priority: input.byte()?,
    })
}

fn save_options(options: &StreamOptions, out: &mut Out<'_>) {
    let StreamOptions { cross_sequencing, gap_wait, credit, priority, window, route } = *options;
    out.option(cross_sequencing, Out::flag);
    out.option(gap_wait, Out::duration);
    out.optional_int(match credit {
        CreditPolicy::Wait => None,
        CreditPolicy::Latest { unread } => Some(unread as u64),
    });
    out.byte(priority);
    out.byte(route.0);
    out.optional_int(window);
}

fn load_options(input: &mut In) -> Loaded<StreamOptions> {
    let (cross_sequencing, gap_wait) = (input.option(In::flag)?, input.option(In::duration)?);
    let credit = match input.optional_int()? {
        None => CreditPolicy::Wait,
        Some(unread) => CreditPolicy::Latest { unread: usize::try_from(unread).map_err(|_| BROKEN)? },
    };
    let (priority, route) = (input.byte()?, RouteClass(input.byte()?));
    let window = if input.is_since(4) { input.optional_int()? } else { None };
    Ok(StreamOptions { cross_sequencing, gap_wait, credit, priority, window, route })
}

fn save_peer(peer: &PeerLimits, out: &mut Out<'_>) {
    let PeerLimits { max_stream_data, max_streams, max_message, cross_sequencing, openings, small_shares } =
        *peer;
    for value in [max_stream_data, max_streams, max_message] {
        out.int(value);
    }
    out.flag(cross_sequencing);
    out.option(openings, Out::flag);
    out.flag(small_shares);
}

fn load_peer(input: &mut In) -> Loaded<PeerLimits> {
    Ok(PeerLimits {
        max_stream_data: input.int()?,
        max_streams: input.at_most(VARINT_MAX / 4)?,
        max_message: input.int()?,
        cross_sequencing: input.flag()?,
        openings: if input.is_since(4) { input.option(In::flag)? } else { None },
        small_shares: input.is_since(5) && input.flag()?,
    })
}

fn is_message_stream(stream: &Stream) -> bool {
    stream.takes() == Some(StreamKind::Messages) && stream.id != StreamId(0)
}

impl Session {
    pub(super) fn save(&mut self, out: &mut Out<'_>) {
        self.outbox.settle_all();
        out.flag(self.side == Side::Client);
        save_config(&self.config, out);
        save_peer(&self.peer, out);
        out.int(self.next_message);
        for value in self.counts.to_saved() {
            out.int(value);
        }
        out.ranges(self.counts.unheard());
        self.account.sent.save(out);
        self.account.received.save(out);
        self.accounting.save(out);
        out.list(self.incoming.received_tags.all(), |out, ((stream, tag), (messages, bytes))| {
            [*stream, *tag, *messages, *bytes].into_iter().for_each(|value| out.int(value));
        });
        let streams: Vec<StreamSlot> = self.streams.open().map(|(slot, _)| slot).collect();
        out.list(streams.into_iter(), |out, slot| self.save_stream(slot, out));
        out.list(self.incoming.inbox.messages().iter(), |out, message| message.save(out));
        let outcomes: Vec<(MessageId, Outcome)> = self
            .accounting
            .events
            .iter()
            .filter_map(|event| match event {
                SessionEvent::Outcome(id, outcome) => Some((*id, *outcome)),
                _ => None,
            })
            .collect();
        out.list(outcomes.into_iter(), |out, (id, outcome)| {
            out.int(id.0);
            super::send_items::save_outcome(outcome, out);
        });
    }

    fn save_stream(&self, slot: StreamSlot, out: &mut Out<'_>) {
        let Some(stream) = self.streams.held(slot) else { return };
        out.int(stream.id.0);
        out.byte(match stream.kind() {
            None => 0,
            Some(StreamKind::Messages) => 1,
            Some(StreamKind::Bytes) => 2,
        });
        stream.send_credit.save(out);
        stream.recv_credit.save(out);
        out.flag(stream.claimed);
        // An END that was sent and not acknowledged is sent again.
        out.byte(match stream.end_out {
            EndOut::Open => 0,
            EndOut::Wanted | EndOut::Told => 1,
            EndOut::Known => 2,
        });
        out.flag(stream.ended_in);
        for cross in [stream.cross_in, stream.cross_out] {
            out.option(cross, Out::flag);
        }
        for domain in Domain::ALL {
            let key = self.streams.key(slot, domain);
            let halves = stream.content.messages();
            let sending = halves.and_then(|halves| halves.send[domain.index()].as_deref());
            out.option(sending, |out, sending| {
                sending.save(out);
                out.list(self.accounting.unconfirmed_in(key).into_iter(), |out, (number, id)| {
                    out.int(number);
                    out.int(id.0);
                });
            });
            let receiving = halves.and_then(|halves| halves.recv[domain.index()].as_deref());
            out.option(receiving, |out, receiving| {
                receiving.save(out);
                out.ranges(&self.out_blocks.answers.asked(key));
                let taken = self.out_blocks.taken.iter().filter(|(of, _)| *of == key);
                let taken: Vec<_> = taken.map(|(_, range)| (range.first, range.count)).collect();
                out.list(taken.into_iter(), |out, (first, count)| {
                    out.int(first);
                    out.int(count);
                });
                out.list(self.out_blocks.verdicts.of(key).into_iter(), |out, (number, whole)| {
                    out.int(number);
                    out.flag(whole);
                });
            });
        }
        out.option(stream.content.bytes_out(), |out, half| half.save(out));
        out.option(stream.content.bytes_in(), |out, half| half.save(out));
        let halves = stream.content.messages();
        let inbox: Vec<_> = halves.map(|halves| halves.inbox.messages()).unwrap_or_default();
        out.list(inbox.iter(), |out, message| message.save(out));
        save_options(&stream.content.options(), out);
        let latest = halves.and_then(|halves| halves.latest.as_ref());
        let unread: Vec<_> = latest.iter().flat_map(|latest| latest.unread()).collect();
        out.list(unread.into_iter(), |out, (others, message)| {
            out.int(others);
            message.save(out);
        });
        out.list(stream.lanes.iter(), |out, lane| self.outbox.lane(*lane).save(out));
    }

    pub(super) fn load(input: &mut In) -> Loaded<Self> {
        let side = if input.flag()? { Side::Client } else { Side::Server };
        let (config, peer) = (load_config(input)?, load_peer(input)?);
        let next_message = input.at_most(VARINT_MAX / 2)?;
        let counts = [
            input.at_most(VARINT_MAX / 8)?,
            input.at_most(VARINT_MAX / 8)?,
            input.at_most(VARINT_MAX / 8)?,
            input.at_most(VARINT_MAX / 8)?,
        ];
        let unheard = if input.is_since(4) { input.many_ranges()? } else { Scattered::default() };
        if unheard.within(0, u64::MAX).any(|(_, end)| end > counts[1]) {
            return Err(BROKEN);
        }
        let counts = StreamCounts::from_saved(counts, unheard);
        let mut session = Self::without_streams(side, Arc::new(config), counts);
        (session.peer, session.next_message) = (peer, next_message);
        session.account.sent = SendCredit::load(input)?;
        session.account.received = ReceivedCredit::load(input)?;
        session.accounting = Accounting::load(input)?;
        let limit = session.config.max_tags;
        input.list(|input| {
            let [stream, tag, messages, bytes] = [input.int()?, input.int()?, input.int()?, input.int()?];
            let new = session.incoming.received_tags.restore(stream, tag, (messages, bytes));
            if new && session.incoming.received_tags.all().len() <= limit { Ok(()) } else { Err(BROKEN) }
        })?;
        input.list(|input| session.load_stream(input))?;
        input.list(|input| {
            session.incoming.inbox.push(Message::load(input)?);
            Ok(())
        })?;
        input.list(|input| {
            let (id, outcome) = (MessageId(input.int()?), super::send_items::load_outcome(input)?);
            session.accounting.events.push_back(SessionEvent::Outcome(id, outcome));
            Ok(())
        })?;
        Ok(session)
    }

    fn load_stream(&mut self, input: &mut In) -> Loaded<()> {
        let id = input.stream()?;
        let opened = self.counts.opened_by(id.opener(), self.side);
        if id.index() >= opened || self.streams.look(id).is_some() {
            return Err(BROKEN);
        }
        let kind = match input.byte()? {
            0 => None,
            1 => Some(StreamKind::Messages),
            2 => Some(StreamKind::Bytes),
            _ => return Err(BROKEN),
        };
        let mut stream = Stream::new(id, kind, 0, 0);
        stream.send_credit = SendCredit::load(input)?;
        stream.recv_credit = RecvCredit::load(input)?;
        self.account.reserve.adopt(stream.recv_credit.drawn(self.share_of(id)));
        stream.claimed = input.flag()?;
        stream.end_out = match input.byte()? {
            0 => EndOut::Open,
            1 => EndOut::Wanted,
            2 => EndOut::Known,
            _ => return Err(BROKEN),
        };
        stream.ended_in = input.flag()?;
        if (stream.end_out != EndOut::Open || stream.ended_in)
            && (kind != Some(StreamKind::Messages) || id == StreamId(0))
        {
            return Err(BROKEN);
        }
        stream.cross_in = input.option(In::flag)?;
        stream.cross_out = input.option(In::flag)?;
        let slot = self.streams.insert(stream);
        for domain in Domain::ALL {
            self.load_sending(input, slot, domain)?;
            self.load_receiving(input, slot, domain)?;
        }
        let bytes_out = input.option(BytesOut::load)?;
        let bytes_in = input.option(BytesIn::load)?;
        let is_bytes = kind == Some(StreamKind::Bytes);
        if bytes_out.is_some() != is_bytes || bytes_in.is_some() != is_bytes {
            return Err(BROKEN);
        }
        if let Some((out, into)) = bytes_out.zip(bytes_in)
            && let Some(stream) = self.streams.held_mut(slot)
        {
            self.account.buffered.adjust(0, out.kept());
            stream.content = Content::bytes(out, into);
        }
        input.list(|input| {
            self.message_halves(slot)?.inbox.push(Message::load(input)?);
            Ok(())
        })?;
        let options = load_options(input)?;
        if kind == Some(StreamKind::Messages) {
            self.set_stream_options(id, options).map_err(|_| BROKEN)?;
        } else {
            self.set_priority(id, options.priority)
                .and_then(|()| self.set_window(id, options.window))
                .map_err(|_| BROKEN)?;
        }
        let window = self.config.stream_window;
        input.list(|input| {
            let (others, message) = (input.size()?, Message::load(input)?);
            // The policy was set to `Wait` since. Messages kept before are still read from here.
            self.message_halves(slot)?
                .latest
                .get_or_insert_with(|| Box::new(Latest::kept(window)))
                .push(message, others);
            Ok(())
        })?;
        input.list(|input| self.load_lane(input, slot, is_bytes))
    }

    /// Returns the message halves of a stream that is being loaded. Only a stream of messages may have what goes there.
    fn message_halves(&mut self, slot: StreamSlot) -> Loaded<&mut MessageHalves> {
        self.streams.held_mut(slot).and_then(|stream| stream.content.messages_mut()).ok_or(BROKEN)
    }

    fn load_sending(&mut self, input: &mut In, slot: StreamSlot, domain: Domain) -> Loaded<()> {
        let key = self.streams.key(slot, domain);
        let tags = self.accounting.tag_count();
        let Some(mut sending) = input.option(|input| SendDomain::load(input, domain.index(), tags))? else {
            return Ok(());
        };
        input.list(|input| {
            let (number, id) = (input.at_most(sending.next())?, MessageId(input.int()?));
            sending.confirming.insert(number, number + 1);
            self.accounting.confirm_later(key, number, id);
            Ok(())
        })?;
        self.accounting.outstanding += sending.outstanding();
        for item in sending.items().filter(|item| item.state != SendState::Done) {
            self.accounting.restore(item, MessagePlace::Sent { key, number: item.first });
        }
        for (number, charge) in sending.unanswered() {
            out_blocks::push(&mut self.out_blocks.skips, key, number, 1, charge);
        }
        self.message_halves(slot)?.send[domain.index()] = Some(Box::new(sending));
        Ok(())
    }

    fn load_receiving(&mut self, input: &mut In, slot: StreamSlot, domain: Domain) -> Loaded<()> {
        let key = self.streams.key(slot, domain);
        let Some(receiving) = input.option(|input| RecvDomain::load(input, domain.index()))? else {
            return Ok(());
        };
        let asked = input.ranges()?;
        for (from, to) in asked.within(0, u64::MAX) {
            SkipAnswers::ask(&mut self.out_blocks.answers, key, from, to);
        }
        input.list(|input| {
            let (first, count) = (input.at_most(VARINT_MAX / 2)?, input.at_most(u32::MAX.into())?);
            if count == 0 {
                return Err(BROKEN);
            }
            out_blocks::push(&mut self.out_blocks.taken, key, first, count, 0);
            Ok(())
        })?;
        input.list(|input| {
            let (number, whole) = (input.at_most(VARINT_MAX / 2)?, input.flag()?);
            if self.out_blocks.verdicts.restore(key, number, whole) { Ok(()) } else { Err(BROKEN) }
        })?;
        self.message_halves(slot)?.recv[domain.index()] = Some(Box::new(receiving));
        Ok(())
    }

    fn load_lane(&mut self, input: &mut In, slot: StreamSlot, is_bytes: bool) -> Loaded<()> {
        let now = input.now();
        let SavedLane { domain, priority, tag, bytes, partial, items } =
            SavedLane::load(input, self.accounting.tag_count())?;
        let key = self.streams.key(slot, domain);
        let fits = if bytes {
            domain == WHOLE && is_bytes && items.is_empty()
        } else {
            domain.index() < Domain::ALL.len() && !is_bytes
        };
        let Some(stream) = self.streams.held(slot).filter(|_| fits) else { return Err(BROKEN) };
        if !bytes {
            let halves = stream.content.messages().ok_or(BROKEN)?;
            let sending = halves.send[domain.index()].as_deref().ok_or(BROKEN)?;
            if partial.is_some_and(|number| !sending.has_parts(number)) {
                return Err(BROKEN);
            }
        }
        let lane = self.outbox.open(key, priority, if tag == NO_TAG { NO_TAG } else { tag }, bytes);
        if let Some(stream) = self.streams.held_mut(slot) {
            stream.lanes.push(lane);
        }
        for item in items {
            let place = MessagePlace::Pending { lane, seq: self.outbox.next_seq(lane) };
            self.accounting.restore(&item, place);
            self.outbox.put_back(now, lane, item);
        }
        self.outbox.lane_mut(lane).partial = partial.filter(|_| !bytes);
        if partial.is_some() {
            self.outbox.activate(now, lane);
        }
        Ok(())
    }

    /// Resumes after a restore: data that was in flight is sent again, credit is granted again, and the application is
    /// told what it does not know.
    pub(super) fn wake_up(&mut self, now: Time) {
        for slot in self.streams.slots() {
            if self.streams.if_taken(slot).is_none() {
                continue;
            }
            for domain in Domain::ALL {
                self.resume_domain(self.streams.key(slot, domain));
                self.list_gap(slot, domain);
            }
            self.resume_stream(now, slot);
        }
        self.clock = now;
        self.out_blocks.notify(Notice::MaxStreams);
        let claimed: usize =
            self.streams.open().filter_map(|(_, stream)| Some(stream.content.messages()?.inbox.len())).sum();
        self.accounting.stats.unread = (self.incoming.inbox.len() + claimed) as u64;
        if !self.incoming.inbox.is_empty() {
            self.incoming.readable_told = true;
            self.accounting.events.push_back(SessionEvent::Readable);
        }
    }

    fn resume_domain(&mut self, key: DomainKey) {
        // Nothing may have been sent in the domain.
        let stream = self.streams.still(key);
        let Some(domain) = stream.and_then(|stream| stream.content.sending(key.domain)) else { return };
        let live: Vec<_> = domain
            .items()
            .filter(|item| item.is_live())
            .filter(|item| !planted(Mutant::ResumedMessageDropped) || item.first % 8 != 3)
            .map(|item| (item.first, item.count, item.state, item.flags & RELIABLE != 0))
            .collect();
        let parts = domain.lost_parts();
        for (number, count, state, reliable) in live {
            if !reliable && count > 1 {
                let Some(domain) = self.streams.still_sending_mut(key) else { return };
                if let Some(index) = domain.index(number) {
                    domain.give_up_bundle(index, Outcome::Lost);
                }
                let given_up =
                    self.streams.still_sending(key).map(SendDomain::unanswered).unwrap_or_default();
                for (number, charge) in given_up
                    .into_iter()
                    .filter(|(given_up, _)| (number..number + u64::from(count)).contains(given_up))
                {
                    out_blocks::push(&mut self.out_blocks.skips, key, number, 1, charge);
                }
            } else if !reliable {
                self.give_up(key, number, Outcome::Lost);
            } else if state == SendState::Lost {
                self.retransmit.lose(key, number, u64::from(count));
            } else if parts.binary_search(&number).is_ok() {
                self.retransmit.lost.push_back(Lost::Parts { key, number });
            }
        }
    }

    fn resume_stream(&mut self, now: Time, slot: StreamSlot) {
        let key = self.streams.key(slot, WHOLE);
        let Some(stream) = self.streams.held_mut(slot) else { return };
        let (id, kind) = (stream.id, stream.kind());
        let unread = stream.content.messages().is_some_and(|halves| !halves.inbox.is_empty());
        let (mut readable, mut lost, mut new) = (stream.claimed && (stream.ended_in || unread), false, false);
        let (mut reset, mut stop) = (false, false);
        if let Content::Bytes(halves) = &stream.content {
            let (out, into) = (&halves.out, &halves.into);
            (lost, new, reset) = (out.has_lost(), out.has_new(), out.reset_notice().is_some());
            readable |= into.has_news();
            stop = into.stop_notice().is_some();
        }
        if lost {
            self.retransmit.lost.push_back(Lost::Bytes { key });
        }
        if new {
            self.activate_bytes(now, slot);
        }
        self.out_blocks.notify(Notice::MaxStreamData(key));
        if reset {
            self.out_blocks.notify(Notice::Reset(key));
        }
        if stop {
            self.out_blocks.notify(Notice::Stop(key));
        }
        let announced = id != StreamId(0) && id.opener() != self.side && self.is_announced(slot);
        if let Some(kind) = kind.filter(|_| announced) {
            self.accounting.events.push_back(SessionEvent::StreamOpened(id, kind));
        }
        if readable {
            self.tell_readable(slot);
        }
        self.check_end(slot);
        match kind {
            Some(StreamKind::Messages) => self.on_quiet(slot),
            Some(StreamKind::Bytes) | None => self.reap(slot),
        }
    }

    /// Returns which side this end is.
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    pub(crate) fn peer_limits(&self) -> PeerLimits {
        self.peer
    }

    /// Returns the session's settings.
    pub fn config(&self) -> SessionConfig {
        *self.config
    }

    /// Returns the settings in the form that other sessions may share.
    pub(crate) fn shared_config(&self) -> Arc<SessionConfig> {
        Arc::clone(&self.config)
    }

    /// Returns the bytes kept while the session waits: queued, sent and not acknowledged, and received and not read,
    /// including parts and messages out of turn.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let of_streams: u64 = self.streams.open().map(|(_, stream)| stream.kept_bytes()).sum();
        self.outbox.bytes() + self.account.received.unread() + of_streams
    }

    /// Returns those of the kept bytes that this end sends.
    pub(crate) fn outgoing_bytes(&self) -> u64 {
        let of_streams: u64 = self.streams.open().map(|(_, stream)| stream.content.outgoing_bytes()).sum();
        self.outbox.bytes() + of_streams
    }

    /// Returns the open byte streams, sorted by id.
    pub fn byte_streams(&self) -> Vec<StreamId> {
        self.streams_where(|stream| stream.kind() == Some(StreamKind::Bytes))
    }

    /// Returns the message streams that this end has not ended, except stream 0, sorted by id.
    pub fn message_streams(&self) -> Vec<StreamId> {
        self.streams_where(is_message_stream)
    }

    /// Returns whether [`Session::message_streams`] contains the stream.
    pub fn is_message_stream(&self, id: StreamId) -> bool {
        self.streams.look(id).is_some_and(is_message_stream)
    }

    fn streams_where(&self, wanted: impl Fn(&Stream) -> bool) -> Vec<StreamId> {
        let open = self.streams.open().map(|(_, stream)| stream);
        let mut ids: Vec<_> = open.filter(|stream| wanted(stream)).map(|stream| stream.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Puts messages that were read but not delivered back into the inbox, before all others.
    pub fn unread(&mut self, messages: impl DoubleEndedIterator<Item = Message>) {
        for message in messages.rev() {
            let charge = message.payload.len() as u64 + MESSAGE_CHARGE;
            self.account.received.take_back(charge);
            if let Some(stream) = self.streams.look_mut(message.stream) {
                stream.recv_credit.take_back(charge);
            }
            self.accounting.stats.unread += 1;
            self.incoming.inbox.push_front(message);
        }
    }
}
