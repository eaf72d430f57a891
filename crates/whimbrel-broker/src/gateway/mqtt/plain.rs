//! Packets for clients that keep no state. They may be the same for many of them.

use bytes::{BufMut, Bytes};
use whimbrel_pubsub::coverage::Told;
use whimbrel_pubsub::message::ChannelId;

use super::codec::Qos;
use super::in_flight::Due;
use super::options::Options;
use super::outgoing::Outgoing;
use crate::hub::Sink;

/// The bytes that are written in one go for all who are alike.
const SHARED: usize = 4 << 10;

/// Sends messages to a client that does not keep a state.
pub(super) struct Plain<'a> {
    pub(super) options: Options,
    pub(super) wants_values: bool,
    pub(super) outgoing: &'a mut Outgoing,
    pub(super) wall_ms: u64,
    /// Where what is shared begins.
    pub(super) shared: usize,
}

impl Plain<'_> {
    /// Whether packets are those of every other client with the same version.
    fn is_usual(&self) -> bool {
        let Options { qos, no_local, as_published, identifier } = self.options;
        let is_plain = !no_local && !as_published && identifier.is_none();
        qos == Qos::AtMostOnce && is_plain && self.outgoing.out.takes_any_length()
    }
}

impl Sink for Plain<'_> {
    fn tell(&mut self, _: ChannelId, told: Told) -> bool {
        if let Told::Delivery(delivery) = told
            && (self.wants_values || !delivery.retained)
        {
            self.outgoing.deliver(&self.options, delivery, None, Due::Nothing, self.wall_ms);
            return self.outgoing.has_room(&self.options);
        }
        true
    }

    fn shares(&self) -> bool {
        self.is_usual()
    }

    fn begin(&mut self) {
        self.shared = self.outgoing.out.len();
    }

    fn is_whole(&self) -> bool {
        self.outgoing.out.len() >= self.shared + SHARED
    }

    fn end(&mut self) -> Option<Vec<Bytes>> {
        let written = self.outgoing.out.bytes().get(self.shared..)?;
        Some(vec![Bytes::copy_from_slice(written)])
    }

    fn repeat(&mut self, bytes: &[Bytes]) -> bool {
        bytes.iter().for_each(|bytes| self.outgoing.out.bytes().put_slice(bytes));
        self.outgoing.has_room(&self.options)
    }
}
