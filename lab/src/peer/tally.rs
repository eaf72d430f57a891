//! The receiving side's tally of what it reads.

use std::collections::HashSet;

use crate::clock;
use crate::job::{BIN, Figures, HEADER, Job, Want, frame_size};

/// Figures in the making.
#[derive(Debug)]
pub(super) struct Tally {
    job: Job,
    figures: Figures,
    /// Numbers of the messages that have arrived.
    seen: HashSet<u64>,
    /// The part of a message that has arrived on a byte stream.
    part: Vec<u8>,
}

impl Tally {
    pub(super) fn new(job: &Job) -> Self {
        Self { job: job.clone(), figures: Figures::default(), seen: HashSet::new(), part: Vec::new() }
    }

    /// Records bytes of a byte stream, in order. Its messages follow one another without framing.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        let now = clock::now();
        self.count(now, bytes.len());
        if matches!(self.job, Job::Bulk | Job::Transfer { .. }) {
            return;
        }
        self.part.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(size) = self.size_at(at).filter(|size| at + size <= self.part.len()) {
            self.note(now, at);
            at += size;
        }
        self.part.drain(..at);
    }

    /// Returns the size of the message that begins there, once that is known.
    fn size_at(&self, at: usize) -> Option<usize> {
        match self.job {
            Job::Messages { size, .. } => Some(size),
            Job::Frames { .. } => Some(frame_size(u64::from_be_bytes(*self.part.get(at..)?.first_chunk()?))),
            Job::Bulk | Job::Transfer { .. } => None,
        }
    }

    /// Records a whole message.
    pub(super) fn message(&mut self, payload: &[u8]) {
        self.part.clear();
        self.read(payload);
    }

    fn note(&mut self, now: u64, at: usize) {
        let header = &self.part[at..at + HEADER];
        let Some((number, sent)) = header.split_first_chunk() else { return };
        let Some(sent) = sent.first_chunk() else { return };
        let number = u64::from_be_bytes(*number);
        self.seen.insert(number);
        self.figures.messages.push((number, u64::from_be_bytes(*sent), now));
    }

    fn count(&mut self, now: u64, length: usize) {
        let (figures, length) = (&mut self.figures, length as u64);
        if figures.bytes == 0 {
            figures.first = now;
        }
        figures.last = now;
        figures.bytes += length;
        match figures.bins.last_mut() {
            Some((bin, bytes)) if *bin == now / BIN => *bytes += length,
            _ => figures.bins.push((now / BIN, length)),
        }
    }

    /// Returns whether everything that the receiver wants has arrived.
    pub(super) fn is_done(&self) -> bool {
        match self.job {
            Job::Bulk => false,
            Job::Transfer { bytes } => self.figures.bytes >= bytes,
            Job::Messages { count, want: Want::Newest, .. } => self.seen.contains(&(count - 1)),
            Job::Messages { count, .. } | Job::Frames { count, .. } => self.seen.len() as u64 >= count,
        }
    }

    pub(super) fn into_figures(self) -> Figures {
        self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Want;

    fn messages(want: Want) -> Tally {
        Tally::new(&Job::Messages { size: 20, rate: 1.0, count: 3, want })
    }

    fn message(number: u64) -> Vec<u8> {
        [&number.to_be_bytes()[..], &(number * 1000).to_be_bytes(), &[0; 4]].concat()
    }

    #[test]
    fn messages_are_found_in_a_stream_however_it_is_cut() {
        let stream = [message(0), message(1), message(2)].concat();
        for cut in 1..stream.len() {
            let mut tally = messages(Want::Ordered);
            stream.chunks(cut).for_each(|chunk| tally.read(chunk));
            assert!(tally.is_done());
            let figures = tally.into_figures();
            assert_eq!(figures.bytes, 60);
            assert_eq!(figures.bins.iter().map(|(_, bytes)| bytes).sum::<u64>(), 60);
            let found: Vec<_> = figures.messages.iter().map(|(number, sent, _)| (*number, *sent)).collect();
            assert_eq!(found, [(0, 0), (1, 1000), (2, 2000)]);
        }
    }

    #[test]
    fn frames_are_found_by_their_numbers() {
        let frame = |number: u64| {
            let mut frame = message(number);
            frame.resize(frame_size(number), 0);
            frame
        };
        let stream: Vec<u8> = (0..4).flat_map(frame).collect();
        for cut in [1, 7, 1000, 100_000] {
            let mut tally = Tally::new(&Job::Frames { rate: 1.0, count: 4, within: 150, one_way: 50 });
            stream.chunks(cut).for_each(|chunk| tally.read(chunk));
            assert!(tally.is_done());
            let found: Vec<_> =
                tally.into_figures().messages.iter().map(|(number, sent, _)| (*number, *sent)).collect();
            assert_eq!(found, [(0, 0), (1, 1000), (2, 2000), (3, 3000)]);
        }
    }

    #[test]
    fn who_wants_the_newest_is_done_with_the_last() {
        let (mut newest, mut each) = (messages(Want::Newest), messages(Want::Each));
        for tally in [&mut newest, &mut each] {
            tally.message(&message(2));
            tally.message(&message(2));
        }
        assert!(newest.is_done() && !each.is_done());
    }

    #[test]
    fn a_datagram_shorter_than_a_message_is_none() {
        let mut tally = messages(Want::Each);
        tally.message(&[0; 19]);
        assert!(tally.into_figures().messages.is_empty());
    }
}
