//! Messages that are in turn and unread.

use super::others::Others;
use super::run::Run;
use crate::StreamId;
use crate::session::account::held::of_queue;
use crate::session::message::Message;
use crate::session::send::queue::Queue;

#[derive(Clone, Debug)]
pub(in crate::session) enum Unread {
    One(Message),
    /// A run that waits as it arrived. It is taken apart when it is read.
    Run(Run),
}

impl Unread {
    /// Returns the first message. That of a run has the payload of all its messages.
    #[inline]
    pub(in crate::session) fn first(&self) -> &Message {
        match self {
            Self::One(message) => message,
            Self::Run(run) => run.next(),
        }
    }

    fn stream(&self) -> StreamId {
        self.first().stream
    }

    /// Returns the memory of the payload, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        self.first().payload.len() as u64
    }

    pub(in crate::session) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Run(run) => run.len(),
        }
    }

    /// Returns the bytes of the payloads.
    pub(in crate::session) fn bytes(&self) -> u64 {
        match self {
            Self::One(message) => message.payload.len() as u64,
            Self::Run(run) => run.bytes(),
        }
    }
}

/// Unread messages in the order in which they are read.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Inbox {
    /// The stream whose messages wait in `queue`. In the shared inbox it is stream 0, to which nearly all messages
    /// belong.
    own: StreamId,
    queue: Queue<Unread>,
    /// How many entries have ever left the queue.
    popped: i64,
    /// Messages of other streams, kept by stream so that claiming one of these need not search through all.
    others: Option<Box<Others>>,
    messages: usize,
    /// Memory of the payloads, bytes.
    bytes: u64,
}

impl Inbox {
    /// Creates the inbox of one stream.
    pub(in crate::session) fn of(own: StreamId) -> Self {
        Self { own, ..Self::default() }
    }

    /// Returns the number of messages.
    #[inline]
    pub(in crate::session) fn len(&self) -> usize {
        self.messages
    }

    #[inline]
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Returns the memory held besides the struct itself, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        let others = self.others.as_ref().map_or(0, |others| others.memory());
        of_queue(self.queue.len(), size_of::<Unread>()) + others + self.bytes
    }

    #[inline]
    pub(in crate::session) fn push(&mut self, message: Message) {
        self.push_unread(Unread::One(message));
    }

    #[inline]
    pub(in crate::session) fn push_unread(&mut self, unread: Unread) {
        self.messages += unread.len();
        self.bytes += unread.memory();
        if unread.stream() == self.own {
            self.queue.push_back(unread);
        } else {
            let before = self.popped + self.queue.len() as i64;
            self.others.get_or_insert_default().push_back(before, unread);
        }
    }

    /// Adds a message before all others.
    pub(in crate::session) fn push_front(&mut self, message: Message) {
        self.put_back(Unread::One(message));
    }

    #[inline]
    pub(in crate::session) fn push_run(&mut self, run: Run) {
        if run.len() > 0 {
            self.push_unread(Unread::Run(run));
        }
    }

    /// Puts the rest of an entry back in its place.
    fn put_back(&mut self, unread: Unread) {
        self.messages += unread.len();
        self.bytes += unread.memory();
        if unread.stream() == self.own {
            self.popped -= 1;
            self.queue.push_front(unread);
        } else {
            self.others.get_or_insert_default().push_front(self.popped, unread);
        }
    }

    #[inline]
    fn pop_unread(&mut self) -> Option<Unread> {
        let first = if self.others.is_some() { self.pop_either() } else { self.pop_own() }?;
        self.messages -= first.len();
        self.bytes -= first.memory();
        Some(first)
    }

    #[inline]
    fn pop_own(&mut self) -> Option<Unread> {
        let first = self.queue.pop_front()?;
        self.popped += 1;
        Some(first)
    }

    fn pop_either(&mut self) -> Option<Unread> {
        let popped = self.popped;
        let others = self.others.as_mut().filter(|others| others.front().is_some_and(|at| at <= popped));
        let Some(others) = others else { return self.pop_own() };
        let first = others.pop();
        self.drop_others();
        first
    }

    fn drop_others(&mut self) {
        if self.others.as_ref().is_some_and(|others| others.is_empty()) {
            self.others = None;
        }
    }

    pub(in crate::session) fn pop(&mut self) -> Option<Message> {
        match self.pop_unread()? {
            Unread::One(message) => Some(message),
            Unread::Run(mut run) => {
                let first = run.split_first();
                if run.len() > 0 {
                    self.put_back(Unread::Run(run));
                }
                Some(first)
            }
        }
    }

    /// Moves up to `most` messages to `out` and shows each to `see`. Returns how many.
    #[inline]
    pub(in crate::session) fn read(
        &mut self,
        out: &mut impl Extend<Message>,
        most: usize,
        mut see: impl FnMut(&Message),
    ) -> usize {
        let mut left = most;
        while left > 0
            && let Some(first) = self.pop_unread()
        {
            match first {
                Unread::One(message) => {
                    left -= 1;
                    see(&message);
                    out.extend([message]);
                }
                Unread::Run(mut run) => {
                    let taken = run.len().min(left);
                    left -= taken;
                    out.extend(run.take(taken).inspect(&mut see));
                    if run.len() > 0 {
                        self.put_back(Unread::Run(run));
                    }
                }
            }
        }
        most - left
    }

    /// Passes up to `most` messages to `take` as they wait: each entry with its stream, its number of messages and its
    /// bytes. Returns how many messages there were.
    #[inline]
    pub(in crate::session) fn move_out(
        &mut self,
        most: usize,
        mut take: impl FnMut(Unread, StreamId, u64, u64),
    ) -> usize {
        let mut left = most;
        while left > 0
            && let Some(mut first) = self.pop_unread()
        {
            if let Unread::Run(run) = &mut first
                && run.len() > left
            {
                let part = Unread::Run(run.split(left));
                self.put_back(std::mem::replace(&mut first, part));
            }
            left -= first.len();
            let (stream, count, bytes) = (first.stream(), first.len() as u64, first.bytes());
            take(first, stream, count, bytes);
        }
        most - left
    }

    /// Removes and returns the newest `count` messages. The caller makes sure that they arrived by themselves, so that
    /// no run has to be split.
    pub(in crate::session) fn split_newest(&mut self, count: usize) -> Self {
        let mut newest = Self::of(self.own);
        while newest.messages < count
            && let Some(last) = self.queue.pop_back()
        {
            self.messages -= last.len();
            self.bytes -= last.memory();
            newest.put_back(last);
        }
        newest
    }

    /// Removes and returns the messages of a stream.
    pub(in crate::session) fn split_stream(&mut self, id: StreamId) -> Self {
        let mut own = Self::of(id);
        if id == self.own {
            while let Some(unread) = self.pop_own() {
                own.push_unread(unread);
            }
        } else if let Some(unread) = self.others.as_mut().and_then(|others| others.take(id)) {
            unread.for_each(|unread| own.push_unread(unread));
            self.drop_others();
        }
        self.messages -= own.messages;
        self.bytes -= own.bytes;
        own
    }

    /// Moves the messages of `other` behind these.
    pub(in crate::session) fn append(&mut self, other: &mut Self) {
        while let Some(unread) = other.pop_unread() {
            self.push_unread(unread);
        }
    }

    /// Returns copies of all messages.
    pub(in crate::session) fn messages(&self) -> Vec<Message> {
        let mut all = Vec::new();
        self.clone().read(&mut all, usize::MAX, |_| ());
        all
    }

    pub(in crate::session) fn shrink(&mut self) {
        self.queue.shrink();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Service;

    fn message(stream: u64, id: u64, payload: &[u8]) -> Message {
        Message {
            payload: Bytes::copy_from_slice(payload),
            stream: StreamId(stream),
            id,
            tag: None,
            ppid: None,
            service: Service::ReliableSequenced,
            priority: 100,
            early: false,
            confirm: false,
            domain: crate::session::numbers::Domain(0),
        }
    }

    /// Returns a run of messages from number `id` on with these payload lengths. Each payload repeats the last byte of
    /// its number.
    fn run(stream: u64, id: u64, lengths: &[usize]) -> Run {
        let mut body = Vec::new();
        for (number, length) in (id..).zip(lengths) {
            match length {
                0..0x40 => body.push(*length as u8),
                _ => body.extend([0x40 | (length >> 8) as u8, *length as u8]),
            }
            body.resize(body.len() + length, number as u8);
        }
        let run = Run::new(message(stream, id, &body)).unwrap();
        assert_eq!((run.len(), run.bytes()), (lengths.len(), lengths.iter().sum::<usize>() as u64));
        run
    }

    fn read(inbox: &mut Inbox, most: usize) -> Vec<(u64, usize)> {
        let (mut out, mut seen) = (Vec::new(), 0);
        let count = inbox.read(&mut out, most, |_| seen += 1);
        assert_eq!((count, seen), (out.len(), out.len()));
        for message in &out {
            assert!(message.payload.iter().all(|byte| *byte == message.id as u8), "{message:?}");
        }
        out.iter().map(|message| (message.id, message.payload.len())).collect()
    }

    #[test]
    fn a_run_is_read_in_any_portions_and_in_turn() {
        for most in 1..=8 {
            let mut inbox = Inbox::default();
            inbox.push(message(0, 1, &[1]));
            inbox.push_run(run(0, 2, &[3, 0, 0x40, 5]));
            inbox.push(message(0, 6, &[6, 6]));
            let mut all = Vec::new();
            while !inbox.is_empty() {
                let part = read(&mut inbox, most);
                assert!(part.len() <= most);
                all.extend(part);
                assert_eq!(inbox.len(), 6 - all.len());
            }
            assert_eq!(all, [(1, 1), (2, 3), (3, 0), (4, 0x40), (5, 5), (6, 2)], "{most} at a time");
        }
    }

    #[test]
    fn one_at_a_time_is_as_many_at_a_time() {
        let mut inbox = Inbox::default();
        inbox.push_run(run(0, 0, &[1, 2]));
        inbox.push_front(message(0, 9, &[9]));
        let ids: Vec<_> = std::iter::from_fn(|| inbox.pop()).map(|message| message.id).collect();
        assert_eq!((ids, inbox.len()), (vec![9, 0, 1], 0));
    }

    #[test]
    fn a_run_that_was_begun_goes_on_wherever_it_moves() {
        let mut inbox = Inbox::default();
        inbox.push_run(run(1, 0, &[1, 2, 3]));
        inbox.push_run(run(2, 0, &[1, 2]));
        inbox.push_run(run(1, 3, &[4]));
        inbox.pop().unwrap();
        assert_eq!(inbox.messages().len(), 5, "copies, nothing is taken");
        let mut own = inbox.split_stream(StreamId(1));
        assert_eq!((own.len(), inbox.len()), (3, 2));
        let newest = own.split_newest(1);
        assert_eq!((newest.len(), own.len()), (1, 2));
        inbox.append(&mut own);
        assert_eq!((own.len(), inbox.len()), (0, 4));
        assert_eq!(read(&mut inbox, usize::MAX), [(0, 1), (1, 2), (1, 2), (2, 3)]);
    }

    #[test]
    fn messages_of_many_streams_are_read_as_they_came() {
        let streams = [0, 5, 0, 3, 5, 0, 0, 3, 3, 5];
        for claimed in [0, 3, 5, 7] {
            let mut inbox = Inbox::default();
            for (id, stream) in (0..).zip(streams) {
                inbox.push_run(run(stream, 10 * id, &[1, 2]));
            }
            assert_eq!(inbox.pop().unwrap().id, 0);
            let first = inbox.pop().unwrap();
            inbox.push_front(first);
            assert_eq!(inbox.pop().unwrap().id, 1);
            inbox.push_front(message(5, 99, &[]));
            inbox.push_front(message(0, 98, &[]));
            let mut own = inbox.split_stream(StreamId(claimed));
            let mut all = Vec::new();
            while let Some(message) = inbox.pop() {
                assert_ne!(message.stream, StreamId(claimed));
                all.push(message.id);
            }
            let of_rest = |stream: &u64| *stream != claimed;
            let ids = |wanted: &dyn Fn(&u64) -> bool| {
                let front = [(0, 98), (5, 99)].into_iter().filter(|(stream, _)| wanted(stream));
                let rest = (1..10u64).filter(|id| wanted(&streams[*id as usize]));
                let rest = rest.flat_map(|id| [10 * id, 10 * id + 1]);
                front.map(|(_, id)| id).chain(rest).collect::<Vec<u64>>()
            };
            assert_eq!(all, ids(&of_rest), "{claimed}");
            assert_eq!((inbox.len(), inbox.bytes), (0, 0));
            let mut read = Vec::new();
            own.read(&mut read, usize::MAX, |_| ());
            let read: Vec<u64> = read.iter().map(|message| message.id).collect();
            assert_eq!(read, ids(&|stream| *stream == claimed), "{claimed}");
        }
    }

    #[test]
    fn a_run_with_a_message_beyond_its_end_is_no_run() {
        for body in [&[2, 7][..], &[0x40], &[1, 7, 0xc0, 0, 0]] {
            assert!(Run::new(message(0, 0, body)).is_err(), "{body:?}");
        }
    }
}
