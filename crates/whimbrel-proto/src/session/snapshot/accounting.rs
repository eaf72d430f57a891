//! Saving tags, counters and messages that await an outcome.

use std::time::Duration;

use super::{Accounting, MessagePlace, TagState};
use crate::session::message::{DomainKey, TagSettings};
use crate::session::numbers::TagSlot;
use crate::session::send::send_item::{NO_TAG, SendItem};
use crate::session::snapshot::codec::{In, Loaded, Out};
use crate::session::stats::{Counters, SessionStats};
use crate::{MessageId, Time};

impl Accounting {
    pub(in crate::session) fn save(&self, out: &mut Out<'_>) {
        save_stats(&self.stats, out);
        out.list(self.tags.iter(), |out, tag| {
            out.int(tag.stream);
            out.int(tag.tag);
            save_counters(&tag.counters, out);
            out.optional_int(tag.settings.bandwidth);
            out.option(tag.settings.lifetime, |out, lifetime: Duration| out.duration(lifetime));
            out.optional_int(tag.settings.priority.map(u64::from));
        });
    }

    pub(in crate::session) fn load(input: &mut In) -> Loaded<Self> {
        let mut accounting = Self { stats: load_stats(input)?, ..Self::default() };
        let now = input.now();
        input.list(|input| {
            let (stream, tag) = (input.int()?, input.int()?);
            let counters = load_counters(input)?;
            let settings = TagSettings {
                bandwidth: input.optional_int()?,
                lifetime: input.option(In::duration)?,
                priority: input.option(|input| Ok(input.at_most(255)? as u8))?,
            };
            let slot = TagSlot(accounting.tags.len() as u32);
            accounting.tags.push(TagState { stream, tag, counters, used: true, ..TagState::default() });
            accounting.by_tag.insert((stream, tag), slot);
            accounting.set_tag(now, slot, settings);
            Ok(())
        })?;
        Ok(accounting)
    }

    pub(in crate::session) fn tag_count(&self) -> usize {
        self.tags.len()
    }

    /// Counts a restored message at its new place.
    pub(in crate::session) fn restore(&mut self, item: &SendItem, place: MessagePlace) {
        if item.tag != NO_TAG {
            let tag = &mut self.tags[item.tag.index()];
            tag.live += 1;
            tag.places.push_back(place);
        }
        if item.expires != Time::MAX {
            self.mortal += 1;
            self.deadlines.push(std::cmp::Reverse((item.expires, place)));
        }
    }

    /// Returns the messages of a domain that wait for TAKEN.
    pub(in crate::session) fn unconfirmed_in(&self, key: DomainKey) -> Vec<(u64, MessageId)> {
        self.unconfirmed.range((key, 0)..=(key, u64::MAX)).map(|((_, number), id)| (*number, *id)).collect()
    }

    pub(in crate::session) fn confirm_later(&mut self, key: DomainKey, number: u64, id: MessageId) {
        self.unconfirmed.insert((key, number), id);
    }
}

fn save_counters(counters: &Counters, out: &mut Out<'_>) {
    let Counters {
        queued,
        sent,
        sent_bytes,
        delivered,
        delivered_bytes,
        taken,
        expired,
        cancelled,
        replaced,
        lost,
        unknown,
    } = *counters;
    let all = [
        queued,
        sent,
        sent_bytes,
        delivered,
        delivered_bytes,
        taken,
        expired,
        cancelled,
        replaced,
        lost,
        unknown,
    ];
    all.into_iter().for_each(|value| out.int(value));
}

fn load_counters(input: &mut In) -> Loaded<Counters> {
    Ok(Counters {
        queued: input.int()?,
        sent: input.int()?,
        sent_bytes: input.int()?,
        delivered: input.int()?,
        delivered_bytes: input.int()?,
        taken: input.int()?,
        expired: input.int()?,
        cancelled: input.int()?,
        replaced: input.int()?,
        lost: input.int()?,
        unknown: input.int()?,
    })
}

/// Saves the statistics that are not recounted on restore.
fn save_stats(stats: &SessionStats, out: &mut Out<'_>) {
    save_counters(&stats.total, out);
    let SessionStats {
        retransmitted,
        repeated,
        received,
        received_bytes,
        duplicates,
        late,
        discarded,
        discarded_bytes,
        stream_bytes_sent,
        stream_bytes_read,
        ..
    } = *stats;
    let all = [
        retransmitted,
        repeated,
        received,
        received_bytes,
        duplicates,
        late,
        discarded,
        discarded_bytes,
        stream_bytes_sent,
        stream_bytes_read,
    ];
    all.into_iter().for_each(|value| out.int(value));
}

fn load_stats(input: &mut In) -> Loaded<SessionStats> {
    Ok(SessionStats {
        total: load_counters(input)?,
        retransmitted: input.int()?,
        repeated: input.int()?,
        received: input.int()?,
        received_bytes: input.int()?,
        duplicates: input.int()?,
        late: input.int()?,
        discarded: input.int()?,
        discarded_bytes: input.int()?,
        stream_bytes_sent: input.int()?,
        stream_bytes_read: input.int()?,
        ..SessionStats::default()
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn every_counter_is_kept() {
        let mut count = 0;
        let mut next = || {
            count += 1;
            count
        };
        let mut counters = || Counters {
            queued: next(),
            sent: next(),
            sent_bytes: next(),
            delivered: next(),
            delivered_bytes: next(),
            taken: next(),
            expired: next(),
            cancelled: next(),
            replaced: next(),
            lost: next(),
            unknown: next(),
        };
        let (total, of_tag) = (counters(), counters());
        let stats = SessionStats {
            total,
            retransmitted: next(),
            repeated: next(),
            received: next(),
            received_bytes: next(),
            duplicates: next(),
            late: next(),
            discarded: next(),
            discarded_bytes: next(),
            stream_bytes_sent: next(),
            stream_bytes_read: next(),
            // These are recounted on restore.
            queue_messages: 0,
            queue_bytes: 0,
            outstanding: 0,
            unread: 0,
            credit_beyond_shares: 0,
            unread_streams: 0,
            blocked_streams: 0,
        };
        let mut accounting = Accounting { stats, ..Accounting::default() };
        accounting.tags.push(TagState {
            stream: 3,
            tag: 5,
            counters: of_tag,
            used: true,
            ..TagState::default()
        });
        let mut bytes = Vec::new();
        accounting.save(&mut Out::new(&mut bytes, Time::ZERO));
        let mut input =
            In::new(Bytes::from(bytes), crate::session::SNAPSHOT_VERSION, Time::ZERO, Duration::ZERO);
        let read = Accounting::load(&mut input).unwrap();
        assert!(input.is_over());
        assert_eq!(read.stats, stats);
        assert_eq!(read.tags[0].counters, of_tag);
    }
}
