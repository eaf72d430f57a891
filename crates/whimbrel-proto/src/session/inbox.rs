//! What is in turn and unread.

use std::collections::VecDeque;

use super::message::Message;
use super::run::Run;
use crate::StreamId;

#[derive(Clone, Debug)]
pub(super) enum Unread {
    One(Message),
    /// Waits as it came, and is taken apart when it is read.
    Run(Run),
}

impl Unread {
    fn stream(&self) -> StreamId {
        match self {
            Self::One(message) => message.stream,
            Self::Run(run) => run.next().stream,
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Run(run) => run.len(),
        }
    }

    /// Of the payloads.
    fn bytes(&self) -> u64 {
        match self {
            Self::One(message) => message.payload.len() as u64,
            Self::Run(run) => run.bytes(),
        }
    }
}

/// Messages in the order in which they are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox {
    queue: VecDeque<Unread>,
    messages: usize,
}

impl Inbox {
    /// Messages.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.messages
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    #[inline]
    pub(super) fn push(&mut self, message: Message) {
        self.messages += 1;
        self.queue.push_back(Unread::One(message));
    }

    /// Before all others.
    pub(super) fn push_front(&mut self, message: Message) {
        self.messages += 1;
        self.queue.push_front(Unread::One(message));
    }

    #[inline]
    pub(super) fn push_run(&mut self, run: Run) {
        if run.len() > 0 {
            self.messages += run.len();
            self.queue.push_back(Unread::Run(run));
        }
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let first = match self.queue.pop_front()? {
            Unread::One(message) => message,
            Unread::Run(mut run) => {
                let first = run.split_first();
                if run.len() > 0 {
                    self.queue.push_front(Unread::Run(run));
                }
                first
            }
        };
        self.messages -= 1;
        Some(first)
    }

    /// Appends up to `most` to `out` and shows each to `see`; returns how many.
    #[inline]
    pub(super) fn read(
        &mut self,
        out: &mut impl Extend<Message>,
        most: usize,
        mut see: impl FnMut(&Message),
    ) -> usize {
        let mut left = most;
        while left > 0
            && let Some(first) = self.queue.pop_front()
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
                        self.queue.push_front(Unread::Run(run));
                    }
                }
            }
        }
        self.messages -= most - left;
        most - left
    }

    /// Up to `most` go to `take` as they wait, each time with their stream, their number and their bytes; returns how many.
    #[inline]
    pub(super) fn move_out(
        &mut self,
        most: usize,
        mut take: impl FnMut(Unread, StreamId, u64, u64),
    ) -> usize {
        let mut left = most;
        while left > 0
            && let Some(mut first) = self.queue.pop_front()
        {
            if let Unread::Run(run) = &mut first
                && run.len() > left
            {
                let part = Unread::Run(run.split(left));
                self.queue.push_front(std::mem::replace(&mut first, part));
            }
            left -= first.len();
            let (stream, count, bytes) = (first.stream(), first.len() as u64, first.bytes());
            take(first, stream, count, bytes);
        }
        self.messages -= most - left;
        most - left
    }

    /// The newest `count`, which came by themselves: no run has but some of them.
    pub(super) fn split_newest(&mut self, count: usize) -> Self {
        let (mut at, mut messages) = (self.queue.len(), 0);
        while messages < count && at > 0 {
            at -= 1;
            messages += self.queue[at].len();
        }
        self.messages -= messages;
        Self { queue: self.queue.split_off(at), messages }
    }

    /// Those of a stream leave it.
    pub(super) fn split_stream(&mut self, id: StreamId) -> Self {
        let (own, others): (VecDeque<_>, _) =
            std::mem::take(&mut self.queue).into_iter().partition(|unread| unread.stream() == id);
        let messages = own.iter().map(Unread::len).sum();
        self.messages -= messages;
        self.queue = others;
        Self { queue: own, messages }
    }

    /// Those of `other` behind these.
    pub(super) fn append(&mut self, other: &mut Self) {
        self.messages += std::mem::take(&mut other.messages);
        self.queue.append(&mut other.queue);
    }

    /// Copies of all.
    pub(super) fn messages(&self) -> Vec<Message> {
        let mut all = Vec::new();
        self.clone().read(&mut all, usize::MAX, |_| ());
        all
    }

    pub(super) fn shrink(&mut self) {
        self.queue.shrink_to_fit();
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
            domain: 0,
        }
    }

    /// Messages from `id` on whose payloads are so long, each of its number's last byte.
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
    fn a_run_with_a_message_beyond_its_end_is_no_run() {
        for body in [&[2, 7][..], &[0x40], &[1, 7, 0xc0, 0, 0]] {
            assert!(Run::new(message(0, 0, body)).is_err(), "{body:?}");
        }
    }
}
