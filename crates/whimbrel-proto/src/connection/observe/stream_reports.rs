//! Reports of the session: its streams, who holds their credit, and budgets that are used up.

use super::observer::Observer;
use super::report::report;
use crate::Time;
use crate::session::{Note, StreamKind, Whose};

impl Observer {
    /// Reports something that the session noted.
    pub(super) fn report_note(&mut self, now: Time, note: &Note) {
        match *note {
            Note::Opened { stream, kind, by_peer } => report!(
                self,
                now,
                debug,
                "whimbrel::stream",
                "stream opened",
                "whimbrel:stream_opened",
                stream = stream.0,
                kind = word(kind),
                by = who(by_peer)
            ),
            Note::Reset { stream, code, by_peer } => report!(
                self,
                now,
                debug,
                "whimbrel::stream",
                "stream reset",
                "whimbrel:stream_reset",
                stream = stream.0,
                code = code,
                by = who(by_peer)
            ),
            Note::Stopped { stream, code, by_peer } => report!(
                self,
                now,
                debug,
                "whimbrel::stream",
                "stream stopped",
                "whimbrel:stream_stopped",
                stream = stream.0,
                code = code,
                by = who(by_peer)
            ),
            Note::Gone { stream } => report!(
                self,
                now,
                debug,
                "whimbrel::stream",
                "stream over",
                "whimbrel:stream_over",
                stream = stream.0
            ),
            Note::Stalled { stream, reader, unread, window } => report!(
                self,
                now,
                info,
                "whimbrel::stream",
                "stream stalled for want of credit",
                "whimbrel:stream_stalled",
                stream = stream.0,
                reason = holder(reader),
                unread = unread,
                window = window
            ),
            Note::Moves { stream, reader } => report!(
                self,
                now,
                info,
                "whimbrel::stream",
                "stream moves again",
                "whimbrel:stream_moves",
                stream = stream.0,
                reason = reads_again(reader)
            ),
            Note::WindowShrinks { stream, from, to } => report!(
                self,
                now,
                debug,
                "whimbrel::stream",
                "window shrinks",
                "whimbrel:window_shrinks",
                stream = stream.0,
                old = from,
                new = to,
                reason = "session_window, credit_budget or memory_budget is short"
            ),
            Note::QueueFull { messages, bytes } => report!(
                self,
                now,
                debug,
                "whimbrel::stream",
                "the send queue is full",
                "whimbrel:queue_full",
                messages = messages,
                bytes = bytes,
                reason = "send_queue_messages, send_queue_bytes or send_budget is used up"
            ),
            Note::MemoryExhausted { held, limit } => report!(
                self,
                now,
                warn,
                "whimbrel::stream",
                "memory for the peer is used up",
                "whimbrel:memory_exhausted",
                held = held,
                limit = limit,
                reason = "memory_budget, or the limit of one session, is reached"
            ),
            Note::Missed(count) => report!(
                self,
                now,
                debug,
                "whimbrel::stream",
                "reports left out",
                "whimbrel:reports_missed",
                count = count
            ),
        }
    }
}

const fn word(kind: StreamKind) -> &'static str {
    match kind {
        StreamKind::Messages => "messages",
        StreamKind::Bytes => "bytes",
    }
}

const fn who(by_peer: bool) -> &'static str {
    if by_peer { "peer" } else { "this end" }
}

const fn holder(reader: Whose) -> &'static str {
    match reader {
        Whose::Ours => "this end does not read it",
        Whose::Peers => "the peer's application does not read it",
    }
}

const fn reads_again(reader: Whose) -> &'static str {
    match reader {
        Whose::Ours => "this end reads it again",
        Whose::Peers => "the peer granted more",
    }
}
