//! Encoding and decoding of snapshot values. Every reader accepts any bytes: it returns a [`SnapshotError`] for bad
//! ones, and allocates in proportion to what is really there.

use std::time::Duration;

use bytes::Bytes;

use crate::session::config::{MAX_RANGES, MAX_SPAN};
use crate::session::receive::scattered::Scattered;
use crate::session::receive::window::Window;
use crate::time::nanos;
use crate::wire::{Malformed, Reader, VARINT_MAX, Writer};
use crate::{Service, StreamId, Tag, Time};

/// The snapshot format that is written. Each change of layout is a new version.
pub const SNAPSHOT_VERSION: u8 = 5;
/// The oldest format that can be read.
pub(super) const OLDEST_VERSION: u8 = 3;

/// An error from restoring a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes are not a snapshot.
    #[error("these bytes are not a suspended session")]
    NotOne,
    /// It was written by another version of the program.
    #[error(
        "the suspended session was written in format {found}, but this program reads {OLDEST_VERSION} to {SNAPSHOT_VERSION}: resume it with the version that wrote it"
    )]
    Version {
        /// The format it was written in.
        found: u8,
    },
    /// It ends too early.
    #[error("the suspended session is cut short")]
    Truncated,
    /// It contains a value that no session can have.
    #[error("the suspended session is damaged: {0}")]
    Corrupt(&'static str),
}

pub(in crate::session) type Loaded<T> = Result<T, SnapshotError>;

/// The error for values that no session can have written.
pub(in crate::session) const BROKEN: SnapshotError = SnapshotError::Corrupt("a value that no session has");

impl From<Malformed> for SnapshotError {
    fn from(_: Malformed) -> Self {
        Self::Truncated
    }
}

/// A snapshot being written. Times are written relative to now.
pub(in crate::session) struct Out<'a> {
    writer: Writer<'a>,
    now: Time,
}

impl<'a> Out<'a> {
    pub(in crate::session) fn new(bytes: &'a mut Vec<u8>, now: Time) -> Self {
        Self { writer: Writer::new(bytes, usize::MAX), now }
    }

    pub(in crate::session) fn int(&mut self, value: u64) {
        self.writer.varint(value.min(VARINT_MAX));
    }

    pub(in crate::session) fn byte(&mut self, value: u8) {
        self.writer.u8(value);
    }

    pub(in crate::session) fn flag(&mut self, value: bool) {
        self.byte(u8::from(value));
    }

    pub(in crate::session) fn bytes(&mut self, bytes: &[u8]) {
        self.int(bytes.len() as u64);
        self.writer.bytes(bytes);
    }

    /// Writes a value that may be missing.
    pub(in crate::session) fn option<T>(&mut self, value: Option<T>, save: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            save(self, value);
        }
    }

    pub(in crate::session) fn optional_int(&mut self, value: Option<u64>) {
        self.option(value, Self::int);
    }

    /// Writes the number of items, and then each item.
    pub(in crate::session) fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut save: impl FnMut(&mut Self, T),
    ) {
        self.int(items.len() as u64);
        for item in items {
            save(self, item);
        }
    }

    /// Writes a duration as 64 bits of nanoseconds.
    pub(in crate::session) fn duration(&mut self, duration: Duration) {
        self.writer.u64(nanos(duration));
    }

    /// Writes a time in the future.
    pub(in crate::session) fn deadline(&mut self, at: Time) {
        self.writer.u64(if at == Time::MAX { u64::MAX } else { nanos(at.since(self.now)) });
    }

    /// Writes a time in the past.
    pub(in crate::session) fn past(&mut self, at: Time) {
        self.duration(self.now.since(at));
    }

    pub(in crate::session) fn ranges(&mut self, ranges: &Scattered) {
        self.int(ranges.len() as u64);
        let mut end = 0;
        for (from, to) in ranges.within(0, u64::MAX) {
            self.int(from - end);
            self.int(to - from);
            end = to;
        }
    }

    pub(in crate::session) fn window(&mut self, window: &Window) {
        let (floor, mut marked) = (window.floor(), Scattered::default());
        let end = floor + MAX_SPAN + 64;
        let mut at = floor;
        while let Some((from, to)) = window.next_open(at, end) {
            marked.insert(at, from);
            at = to;
        }
        self.int(floor);
        self.ranges(&marked);
    }
}

/// Most numbers that one snapshot may mark in windows. Each costs a bit.
const MOST_MARKED: u64 = 1 << 28;
/// Most bytes that holes in messages may take together.
const MOST_HOLES: u64 = 256 << 20;

/// A snapshot being read. Times keep their distance from now, adjusted by the time `suspended_for`.
pub(in crate::session) struct In {
    reader: Reader,
    version: u8,
    now: Time,
    suspended_for: Duration,
    marked: u64,
    room: u64,
}

impl In {
    pub(in crate::session) fn new(bytes: Bytes, version: u8, now: Time, suspended_for: Duration) -> Self {
        let room = 8 * bytes.len() as u64 + MOST_HOLES;
        Self { reader: Reader::new(bytes), version, now, suspended_for, marked: 0, room }
    }

    /// Returns whether the restored session may take this many bytes beyond those in the snapshot, and deducts them.
    pub(in crate::session) fn affords(&mut self, bytes: u64) -> bool {
        let rest = self.room.checked_sub(bytes);
        self.room = rest.unwrap_or(0);
        rest.is_some()
    }

    /// Returns whether the snapshot has the fields that were added in format `version`.
    pub(in crate::session) fn is_since(&self, version: u8) -> bool {
        self.version >= version
    }

    pub(in crate::session) fn is_over(&self) -> bool {
        self.reader.is_empty()
    }

    pub(in crate::session) fn now(&self) -> Time {
        self.now
    }

    pub(in crate::session) fn int(&mut self) -> Loaded<u64> {
        Ok(self.reader.varint()?)
    }

    /// Reads an integer up to `most`.
    pub(in crate::session) fn at_most(&mut self, most: u64) -> Loaded<u64> {
        self.int().and_then(|value| if value <= most { Ok(value) } else { Err(BROKEN) })
    }

    pub(in crate::session) fn small(&mut self) -> Loaded<u32> {
        Ok(self.at_most(u32::MAX.into())? as u32)
    }

    pub(in crate::session) fn size(&mut self) -> Loaded<usize> {
        usize::try_from(self.int()?).map_err(|_| BROKEN)
    }

    pub(in crate::session) fn byte(&mut self) -> Loaded<u8> {
        Ok(self.reader.u8()?)
    }

    pub(in crate::session) fn flag(&mut self) -> Loaded<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BROKEN),
        }
    }

    pub(in crate::session) fn bytes(&mut self) -> Loaded<Bytes> {
        let length = self.int()?;
        Ok(self.reader.bytes(length)?)
    }

    pub(in crate::session) fn option<T>(
        &mut self,
        load: impl FnOnce(&mut Self) -> Loaded<T>,
    ) -> Loaded<Option<T>> {
        if self.flag()? { load(self).map(Some) } else { Ok(None) }
    }

    pub(in crate::session) fn optional_int(&mut self) -> Loaded<Option<u64>> {
        self.option(Self::int)
    }

    /// Calls `load` once for each entry of the list. Each entry takes at least a byte.
    pub(in crate::session) fn list(&mut self, mut load: impl FnMut(&mut Self) -> Loaded<()>) -> Loaded<()> {
        let count = self.at_most(self.reader.remaining() as u64).map_err(|error| match error {
            SnapshotError::Corrupt(_) => SnapshotError::Truncated,
            other => other,
        })?;
        (0..count).try_for_each(|_| load(self))
    }

    pub(in crate::session) fn duration(&mut self) -> Loaded<Duration> {
        Ok(Duration::from_nanos(self.reader.u64()?))
    }

    pub(in crate::session) fn deadline(&mut self) -> Loaded<Time> {
        let left = self.reader.u64()?;
        let left =
            Duration::from_nanos(left).saturating_sub(self.suspended_for).min(Duration::from_nanos(left));
        Ok(if left.as_nanos() > u128::from(u64::MAX / 2) { Time::MAX } else { self.now + left })
    }

    pub(in crate::session) fn past(&mut self) -> Loaded<Time> {
        let since = self.duration()?;
        Ok(self.now.saturating_sub(since.saturating_add(self.suspended_for)))
    }

    pub(in crate::session) fn ranges(&mut self) -> Loaded<Scattered> {
        self.ranges_up_to(2 * MAX_RANGES)
    }

    /// Reads ranges without a limit on their number.
    pub(in crate::session) fn many_ranges(&mut self) -> Loaded<Scattered> {
        self.ranges_up_to(usize::MAX)
    }

    fn ranges_up_to(&mut self, most: usize) -> Loaded<Scattered> {
        let (mut ranges, mut end) = (Scattered::default(), 0u64);
        self.list(|input| {
            let from = input.int()?.checked_add(end).filter(|from| *from <= VARINT_MAX).ok_or(BROKEN)?;
            let count = input.int()?;
            end = from.checked_add(count).filter(|to| *to <= VARINT_MAX && count > 0).ok_or(BROKEN)?;
            ranges.insert(from, end);
            let affordable = most < usize::MAX || input.affords(Scattered::memory_of(1));
            if ranges.len() > most || !affordable { Err(BROKEN) } else { Ok(()) }
        })?;
        Ok(ranges)
    }

    pub(in crate::session) fn window(&mut self) -> Loaded<Window> {
        let floor = self.at_most(VARINT_MAX / 2)?;
        let (mut window, mut end) = (Window::default(), floor);
        window.raise(floor);
        // This is not read as a set of ranges, since there may be one for every second number.
        let mut first = true;
        self.list(|input| {
            let gap = input.int()?;
            let from = if std::mem::take(&mut first) { Some(gap) } else { end.checked_add(gap) };
            let from = from.filter(|from| *from >= end && *from < floor + MAX_SPAN).ok_or(BROKEN)?;
            let to = from.checked_add(input.int()?).filter(|to| *to <= floor + MAX_SPAN).ok_or(BROKEN)?;
            input.marked += to - end;
            if to == from || from == floor || input.marked > MOST_MARKED {
                return Err(BROKEN);
            }
            window.mark_all(from, to);
            end = to;
            Ok(())
        })?;
        Ok(window)
    }

    pub(in crate::session) fn stream(&mut self) -> Loaded<StreamId> {
        self.int().map(StreamId)
    }

    pub(in crate::session) fn tag(&mut self) -> Loaded<Tag> {
        self.int().map(Tag)
    }

    pub(in crate::session) fn service(&mut self) -> Loaded<Service> {
        let index = usize::from(self.byte()?);
        Service::ALL.into_iter().find(|service| service.index() == index).ok_or(BROKEN)
    }
}
