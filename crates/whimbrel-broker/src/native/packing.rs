//! Packing what a subscription is told into messages.

use bytes::Bytes;
use whimbrel_pubsub::coverage::Told;
use whimbrel_pubsub::frame::{Telling, telling_head};
use whimbrel_pubsub::message::ChannelId;

use crate::hub::{Form, Sink};

/// The form of the frames.
pub(super) const FORM: Form = Form(1);
/// The most bytes of a frame that others can share: about a packet.
const FRAME: usize = 1_400;
/// The most bytes of frames that are joined into one message.
///
/// As messages of their own, frames would make packets of different lengths, which cannot leave in one call. What is joined is cut where
/// packets end, whatever these carry.
const LONGEST_JOINED: usize = 16 << 10;

/// Packs what is told. Frames are short, so that others can use them. What is read at a time goes out joined.
#[derive(Default)]
pub(super) struct Packing {
    /// The bytes that may be packed if there is room.
    roomy: usize,
    /// The bytes that may be packed now.
    room: usize,
    open: Option<(ChannelId, Telling)>,
    /// The first frame of the message, as long as there is no other. It is not copied: a large one goes to many.
    alone: Option<Bytes>,
    /// The frames of the message, if there are several.
    joined: Vec<u8>,
    full: Vec<Bytes>,
    bytes: usize,
    /// The length of what was added last.
    last: usize,
    /// Frames that others may share.
    shared: Option<Vec<Bytes>>,
}

impl Packing {
    pub(super) fn new(roomy: usize) -> Self {
        Self { roomy, room: FRAME, ..Self::default() }
    }

    /// Sets whether there is room for more than a frame.
    pub(super) fn allow(&mut self, is_roomy: bool) {
        self.room = if is_roomy { self.roomy } else { FRAME };
    }

    pub(super) fn take(&mut self) -> Vec<Bytes> {
        self.close();
        self.part();
        self.bytes = 0;
        std::mem::take(&mut self.full)
    }

    /// Ends the open frame.
    fn close(&mut self) {
        let Some((_, telling)) = self.open.take() else { return };
        let frame = telling.finish();
        self.join(&frame);
        if let Some(shared) = &mut self.shared {
            shared.push(frame);
        }
    }

    /// Adds a frame to the message if it is about the same channel and there is room. Otherwise it begins another.
    fn join(&mut self, frame: &Bytes) {
        let head = telling_head(frame);
        let begun = self.alone.as_deref().unwrap_or(&self.joined);
        if begun.len() + frame.len() - head <= LONGEST_JOINED && begun.starts_with(&frame[..head]) {
            if let Some(first) = self.alone.take() {
                self.joined.extend_from_slice(&first);
            }
            self.joined.extend_from_slice(&frame[head..]);
        } else {
            self.part();
            self.alone = Some(frame.clone());
        }
    }

    /// Ends the message.
    fn part(&mut self) {
        let joined = (!self.joined.is_empty()).then(|| std::mem::take(&mut self.joined).into());
        self.full.extend(self.alone.take().or(joined));
    }
}

impl Sink for Packing {
    fn tell(&mut self, channel: ChannelId, told: Told) -> bool {
        self.last = match &told {
            Told::Delivery(delivery) => delivery.message.encoded().len() + 16,
            _ => 48,
        };
        if self
            .open
            .as_ref()
            .is_some_and(|(open, telling)| *open != channel || telling.len() + self.last > FRAME)
        {
            self.close();
        }
        let (_, telling) = self.open.get_or_insert_with(|| (channel, Telling::new(channel)));
        telling.push(&told);
        self.bytes += self.last;
        self.bytes < self.room
    }

    fn shares(&self) -> bool {
        true
    }

    fn begin(&mut self) {
        self.close();
        self.shared = Some(Vec::new());
    }

    /// Another as long as the last would not fit into the frame.
    fn is_whole(&self) -> bool {
        let is_full = |(_, telling): &(ChannelId, Telling)| telling.len() + self.last > FRAME;
        self.shared.as_ref().is_some_and(|shared| !shared.is_empty())
            || self.open.as_ref().is_some_and(is_full)
    }

    fn end(&mut self) -> Option<Vec<Bytes>> {
        self.close();
        self.shared.take()
    }

    fn repeat(&mut self, bytes: &[Bytes]) -> bool {
        self.close();
        self.bytes += bytes.iter().map(Bytes::len).sum::<usize>();
        bytes.iter().for_each(|frame| self.join(frame));
        self.bytes < self.room
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::coverage::{Cover, Delivery, Range};
    use whimbrel_pubsub::frame::parse_telling;
    use whimbrel_pubsub::message::{BrokerId, Draft, Hlc, Origin, PartitionId, Stamp};

    use super::*;

    fn delivery(sequence: u64, length: usize) -> Told {
        let origin = Origin { broker: BrokerId(7), epoch: 9 };
        let published = Hlc::at(sequence);
        let stamp = Stamp { origin, sequence, partition: PartitionId(0), ordinal: sequence, published };
        let cover = Cover { origin, range: Range { first: sequence, last: sequence } };
        let message = Draft { topic: "t", payload: &vec![7; length], ..Draft::default() }.finish().unwrap();
        let (recovered, late, retained) = (false, false, false);
        Told::Delivery(Delivery { cover, stamp, message, recovered, late, retained })
    }

    fn parsed(messages: &[Bytes]) -> Vec<(ChannelId, Told)> {
        let parse = |message| {
            let (channel, told) = parse_telling(message).unwrap();
            told.into_iter().map(move |told| (channel, told))
        };
        messages.iter().flat_map(parse).collect()
    }

    /// Tells deliveries as passages that others can share, and returns these.
    fn tell_passages(packing: &mut Packing, deliveries: std::ops::Range<u64>) -> Vec<Bytes> {
        let mut passages = Vec::new();
        packing.begin();
        for sequence in deliveries {
            packing.tell(ChannelId(3), delivery(sequence, 50 + sequence as usize % 9));
            if packing.is_whole() {
                passages.extend(packing.end().unwrap());
                packing.begin();
            }
        }
        passages.extend(packing.end().unwrap());
        passages
    }

    #[test]
    fn passages_that_are_read_at_a_time_go_out_as_one_message() {
        let (mut first, mut second) = (Packing::new(64 << 10), Packing::new(64 << 10));
        first.allow(true);
        second.allow(true);
        let passages = tell_passages(&mut first, 1..151);
        assert!(passages.len() > 5 && passages.iter().all(|frame| frame.len() <= FRAME));
        assert!(second.repeat(&passages));
        let expected: Vec<_> =
            (1..151).map(|number| (ChannelId(3), delivery(number, 50 + number as usize % 9))).collect();
        for packing in [&mut first, &mut second] {
            let messages = packing.take();
            assert_eq!((messages.len(), parsed(&messages)), (1, expected.clone()));
            assert!(packing.take().is_empty());
        }
    }

    /// All subscriptions that are alike send the same memory.
    #[test]
    fn a_frame_alone_is_not_copied() {
        let mut first = Packing::new(64 << 10);
        let passages = tell_passages(&mut first, 1..2);
        let mut second = Packing::new(64 << 10);
        second.repeat(&passages);
        let sent = [first.take(), second.take()].concat();
        assert_eq!(
            sent.iter().map(|message| message.as_ptr()).collect::<Vec<_>>(),
            [passages[0].as_ptr(); 2]
        );
    }

    #[test]
    fn a_message_is_about_one_channel_and_bounded() {
        let mut packing = Packing::new(1 << 20);
        packing.allow(true);
        let told: Vec<_> = (1..601)
            .map(|number| (ChannelId((number / 250) as u32), delivery(number, 50)))
            .chain([(ChannelId(1), delivery(601, 40 << 10)), (ChannelId(1), delivery(602, 1))])
            .collect();
        told.iter().for_each(|(channel, told)| {
            packing.tell(*channel, told.clone());
        });
        let messages = packing.take();
        assert_eq!(parsed(&messages), told);
        assert_eq!(messages.iter().filter(|message| message.len() > LONGEST_JOINED).count(), 1);
        assert!(messages.len() <= 8, "{}", messages.len());
    }
}
