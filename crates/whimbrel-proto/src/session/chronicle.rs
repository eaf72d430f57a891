//! Notes on streams and budgets, for whoever observes the connection. The session knows no observer: it notes
//! things here, and the connection takes them away after each step. Nothing is noted unless somebody observes.

use super::account::stalls::Whose;
use super::message::StreamKind;
use crate::StreamId;

/// The most entries between two steps. The application may open streams by the thousand before the connection is
/// driven.
const MOST: usize = 256;

/// Something that happened in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    Opened {
        stream: StreamId,
        kind: StreamKind,
        by_peer: bool,
    },
    /// A direction of a byte stream was given up by its sender.
    Reset {
        stream: StreamId,
        code: u64,
        by_peer: bool,
    },
    /// A direction of a byte stream is not read any more.
    Stopped {
        stream: StreamId,
        code: u64,
        by_peer: bool,
    },
    /// Both directions have ended.
    Gone {
        stream: StreamId,
    },
    /// A stream has stood still for a second, because its reader holds `unread` bytes of credit.
    Stalled {
        stream: StreamId,
        reader: Whose,
        unread: u64,
        window: u64,
    },
    /// It moves again.
    Moves {
        stream: StreamId,
        reader: Whose,
    },
    /// A stream's window shrinks, because little is left of a credit or memory budget.
    WindowShrinks {
        stream: StreamId,
        from: u64,
        to: u64,
    },
    /// The first message was refused because the queue or the send budget is full.
    QueueFull {
        messages: u64,
        bytes: u64,
    },
    /// More would have to be held for the peer than the budgets allow.
    MemoryExhausted {
        held: u64,
        limit: u64,
    },
    /// This many entries had no room.
    Missed(u64),
}

/// The notes; see the module documentation.
#[derive(Debug, Default)]
pub(in crate::session) struct Chronicle(Option<Box<Journal>>);

#[derive(Debug, Default)]
struct Journal {
    entries: Vec<Note>,
    missed: u64,
}

impl Chronicle {
    /// Notes something, if anybody wants to know.
    #[inline]
    pub(in crate::session) fn note(&mut self, note: impl FnOnce() -> Note) {
        if let Some(journal) = &mut self.0 {
            if journal.entries.len() < MOST { journal.entries.push(note()) } else { journal.missed += 1 }
        }
    }

    /// Takes the notes. From now on, things are noted.
    pub(in crate::session) fn take(&mut self) -> Vec<Note> {
        let journal = self.0.get_or_insert_default();
        let missed = std::mem::take(&mut journal.missed);
        let mut notes = std::mem::take(&mut journal.entries);
        notes.extend((missed > 0).then_some(Note::Missed(missed)));
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_noted_for_nobody_and_not_too_much_for_somebody() {
        let mut chronicle = Chronicle::default();
        chronicle.note(|| unreachable!("nobody asked"));
        assert_eq!(chronicle.take(), []);
        for number in 0..300 {
            chronicle.note(|| Note::Gone { stream: StreamId(number) });
        }
        let notes = chronicle.take();
        assert_eq!((notes.len(), notes.last()), (MOST + 1, Some(&Note::Missed(44))));
        assert_eq!(chronicle.take(), []);
    }
}
