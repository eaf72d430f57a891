//! The messages that a client has not acknowledged, by packet identifier.

use std::collections::BTreeMap;

use whimbrel_pubsub::message::{Message, Stamp};

use super::acknowledged::Mark;
use super::codec::{Fault, Out, PropertyList, Qos, Version};
use super::message::{expiry_of, properties_of};
use super::state::COVERAGE;
use crate::hub::Receipt;
use crate::store::{MessageName, Outbound};

/// The most identifiers of a former run that take no room of others. More are left if the broker ends again and again before their messages
/// come up. There are 65,535 identifiers for all.
const MOST_FORMER: usize = 16_384;

/// Messages that the client did not acknowledge, and identifiers that it did not release. It outlives connections.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    by_id: BTreeMap<u16, Entry>,
    /// Identifiers that a former run of the broker left. Boxed: most clients have none.
    former: Option<Box<Former>>,
    bytes: usize,
    begun: u64,
    /// The number of entries that the client's receive maximum counts.
    outstanding: u16,
    last: u16,
}

/// The identifiers under which a former run of the broker may have sent messages that have not come up in this one.
#[derive(Debug, Default)]
struct Former {
    /// Those of messages of durable subscriptions.
    names: BTreeMap<MessageName, u16>,
    /// The number of all.
    number: usize,
}

#[derive(Debug)]
struct Entry {
    /// Messages are sent in this order, in whichever connection.
    order: u64,
    stage: Stage,
}

/// The stage of a packet identifier.
#[derive(Debug)]
enum Stage {
    /// Its message was not sent in this connection.
    Waits { sent: Sent, was_sent: bool },
    /// Its message was sent, and the client has to answer.
    Out(Sent),
    /// QoS 2: the client has the message. It is told to release the identifier once that is on disk.
    Received,
    /// QoS 2: the client was told to release it.
    Released,
    /// QoS 2: a former run of the broker may have sent a message under it, and the message has not come up in this one.
    Former,
}

/// A message as it is sent, so that it can be sent again.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) message: Message,
    pub(super) stamp: Stamp,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    pub(super) identifier: Option<u32>,
    pub(super) coverage: Option<String>,
    pub(super) due: Due,
}

/// The work that is due when the client has a message.
#[derive(Debug)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// A group is told. Dropping it gives the message to another member.
    Group(Receipt),
    /// The store is told.
    Store(Mark),
}

/// The subject of a client's answer at QoS 2.
#[derive(Debug)]
pub(super) enum Received {
    /// No message.
    Nothing,
    /// A message that the client has said to have before. It waits for the disk.
    Again,
    /// An identifier that the client was told to release.
    Released,
    /// A message.
    Message(Due),
}

/// The step due for a packet identifier at the start of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// Send the message.
    Send,
    /// Send the message, which is at QoS 2 and was not sent before.
    Begin,
    /// Tell the client to release it, once it is on disk that the client has the message.
    Release,
    /// Tell the client once more to release it.
    ReleaseAgain,
}

impl Due {
    pub(super) fn settle(self) {
        match self {
            Self::Nothing => {}
            Self::Group(receipt) => receipt.settle(),
            Self::Store(mark) => mark.settle(),
        }
    }

    /// The part of it that is the store's.
    pub(super) fn mark(&self) -> Option<&Mark> {
        match self {
            Self::Store(mark) => Some(mark),
            Self::Nothing | Self::Group(_) => None,
        }
    }
}

impl InFlight {
    /// The identifiers as a former run of the broker left them on disk.
    pub(super) fn of(found: Vec<(u16, Outbound)>) -> Self {
        let mut in_flight = Self::default();
        for (id, outbound) in found {
            in_flight.last = id;
            match outbound {
                Outbound::Released => in_flight.put(id, Stage::Released),
                Outbound::Sent(name) => {
                    in_flight.put(id, Stage::Former);
                    let former = in_flight.former.get_or_insert_default();
                    former.number += 1;
                    former.names.extend(name.map(|name| (name, id)));
                }
            }
        }
        in_flight
    }

    /// The number of identifiers that are in use. Those of a former run count once their messages come up.
    pub(super) fn len(&self) -> usize {
        self.by_id.len() - self.former_number().min(MOST_FORMER)
    }

    /// The number of those that the client's receive maximum counts.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding.into()
    }

    fn former_number(&self) -> usize {
        self.former.as_ref().map_or(0, |former| former.number)
    }

    /// About how many bytes the messages take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// About how many bytes all of it takes.
    pub(super) fn all_bytes(&self) -> usize {
        self.bytes + self.by_id.len() * 64 + self.former_number() * 256
    }

    /// Gives a message an identifier, which is returned.
    pub(super) fn begin(&mut self, sent: Sent) -> u16 {
        let id = self.next();
        self.put(id, Stage::Waits { sent, was_sent: false });
        id
    }

    /// The identifier under which a former run may have sent a message.
    pub(super) fn former(&mut self, mark: &Mark, stamp: &Stamp) -> Option<u16> {
        self.former.as_mut()?.names.remove(&mark.message(stamp))
    }

    /// A message has come up that a former run may have sent. It goes on at QoS 2, whatever its subscription wants by now.
    pub(super) fn go_on(&mut self, id: u16, sent: Sent) {
        self.take(id);
        if let Some(former) = &mut self.former {
            former.number -= 1;
        }
        self.put(id, Stage::Waits { sent: Sent { qos: Qos::ExactlyOnce, ..sent }, was_sent: true });
    }

    /// No message of a former run comes up any more. Returns the identifiers that are left of that run: the client is to release them.
    pub(super) fn release_former(&mut self) -> Vec<u16> {
        if self.former.take().is_none() {
            return Vec::new();
        }
        let all = self.by_id.iter().filter(|(_, entry)| matches!(entry.stage, Stage::Former));
        let ids: Vec<_> = all.map(|(id, _)| *id).collect();
        for id in &ids {
            self.change(*id, |_| Stage::Received);
        }
        ids
    }

    /// Whether a message of a former run may still come up.
    pub(super) fn has_former(&self) -> bool {
        self.former.is_some()
    }

    /// Sends a message that waits, by `write`, which says whether the client takes one so long. A message that is too long counts as
    /// acknowledged. Returns whether it was one.
    pub(super) fn send(&mut self, id: u16, write: impl FnOnce(&Sent, bool) -> bool) -> bool {
        match self.by_id.get(&id) {
            Some(Entry { stage: Stage::Waits { sent, was_sent }, .. }) => {
                if write(sent, *was_sent) {
                    self.change(id, |stage| match stage {
                        Stage::Waits { sent, .. } => Stage::Out(sent),
                        stage => stage,
                    });
                    return false;
                }
                if let Some(due) = self.remove(id) {
                    due.settle();
                }
                true
            }
            // It was acknowledged before it was sent again.
            _ => false,
        }
    }

    /// The client has a message at QoS 1. One that is not known was acknowledged before. Returns whether there was one.
    pub(super) fn acknowledged(&mut self, id: u16) -> Result<bool, Fault> {
        match self.by_id.get(&id).map(|entry| &entry.stage) {
            None | Some(Stage::Waits { was_sent: false, .. }) => return Ok(false),
            Some(Stage::Out(sent) | Stage::Waits { sent, .. }) if sent.qos == Qos::AtLeastOnce => {}
            Some(_) => return Err(Fault::protocol("a message at QoS 2 is acknowledged by a PUBACK")),
        }
        if let Some(due) = self.remove(id) {
            due.settle();
        }
        Ok(true)
    }

    /// The client says that it has a message at QoS 2. Its identifier stays until [`InFlight::completed`].
    pub(super) fn received(&mut self, id: u16) -> Result<Received, Fault> {
        match self.by_id.get(&id).map(|entry| &entry.stage) {
            // The answer to a former one comes again when its message is sent again.
            Some(Stage::Former | Stage::Received) => return Ok(Received::Again),
            Some(Stage::Released) => return Ok(Received::Released),
            None | Some(Stage::Waits { was_sent: false, .. }) => return Ok(Received::Nothing),
            Some(Stage::Out(sent) | Stage::Waits { sent, .. }) if sent.qos == Qos::ExactlyOnce => {}
            Some(_) => return Err(Fault::protocol("a message at QoS 1 is acknowledged by a PUBREC")),
        }
        let Some((order, due)) = self.take(id) else { return Ok(Received::Nothing) };
        self.put_at(order, id, Stage::Received);
        Ok(Received::Message(due))
    }

    /// The client is told to release an identifier.
    pub(super) fn released(&mut self, id: u16) {
        self.change(id, |_| Stage::Released);
    }

    /// The client has released an identifier. One that is not known was released before. Returns whether it is free now.
    pub(super) fn completed(&mut self, id: u16) -> Result<bool, Fault> {
        match self.by_id.get(&id).map(|entry| &entry.stage) {
            None | Some(Stage::Waits { .. } | Stage::Former) => Ok(false),
            Some(Stage::Released) => Ok(self.remove(id).is_some()),
            Some(Stage::Out(_) | Stage::Received) => {
                Err(Fault::protocol("a PUBCOMP comes before the broker has sent PUBREL"))
            }
        }
    }

    /// Frees an identifier. Returns what was due for its message.
    pub(super) fn remove(&mut self, id: u16) -> Option<Due> {
        self.take(id).map(|(_, due)| due)
    }

    /// The connection is over. Other members of groups get what was theirs.
    pub(super) fn park(&mut self) {
        let of_group = |stage: &Stage| match stage {
            Stage::Waits { sent, .. } | Stage::Out(sent) => matches!(sent.due, Due::Group(_)),
            _ => false,
        };
        let given_back = self.by_id.iter().filter(|(_, entry)| of_group(&entry.stage));
        for id in given_back.map(|(id, _)| *id).collect::<Vec<_>>() {
            drop(self.remove(id));
        }
        let out = self.by_id.iter().filter(|(_, entry)| matches!(entry.stage, Stage::Out(_)));
        for id in out.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.change(id, |stage| match stage {
                Stage::Out(sent) => Stage::Waits { sent, was_sent: true },
                stage => stage,
            });
        }
    }

    /// Returns the steps due at the start of a connection, in order.
    pub(super) fn to_resume(&self) -> Vec<(u16, Resume)> {
        let mut all: Vec<_> = self
            .by_id
            .iter()
            .filter_map(|(id, Entry { order, stage })| {
                let resume = match stage {
                    Stage::Waits { sent, was_sent: false } if sent.qos == Qos::ExactlyOnce => Resume::Begin,
                    Stage::Waits { .. } | Stage::Out(_) => Resume::Send,
                    Stage::Received => Resume::Release,
                    Stage::Released => Resume::ReleaseAgain,
                    Stage::Former => return None,
                };
                Some((*order, *id, resume))
            })
            .collect();
        all.sort_unstable_by_key(|(order, ..)| *order);
        all.into_iter().map(|(_, id, resume)| (id, resume)).collect()
    }

    /// The identifiers at QoS 2 as they are kept on disk.
    pub(super) fn outbound(&self) -> Vec<(u16, Outbound)> {
        let kept = self.by_id.iter().filter_map(|(id, Entry { stage, .. })| match stage {
            Stage::Waits { sent, .. } | Stage::Out(sent) => {
                (sent.qos == Qos::ExactlyOnce).then(|| (*id, sent.outbound()))
            }
            // The client has it: only the release is left.
            Stage::Received | Stage::Released => Some((*id, Outbound::Released)),
            Stage::Former => None,
        });
        kept.collect()
    }

    /// A message as it is kept on disk; `None` if there is none under this identifier.
    pub(super) fn outbound_of(&self, id: u16) -> Option<Outbound> {
        match &self.by_id.get(&id)?.stage {
            Stage::Waits { sent, .. } | Stage::Out(sent) => Some(sent.outbound()),
            _ => None,
        }
    }

    fn next(&mut self) -> u16 {
        // There are fewer than identifiers.
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.by_id.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    fn put(&mut self, id: u16, stage: Stage) {
        self.begun += 1;
        self.put_at(self.begun, id, stage);
    }

    fn put_at(&mut self, order: u64, id: u16, stage: Stage) {
        self.outstanding += u16::from(stage.is_outstanding());
        self.bytes += stage.bytes();
        self.by_id.insert(id, Entry { order, stage });
    }

    /// Takes an entry out. Returns its place in the order, and what was due for its message.
    fn take(&mut self, id: u16) -> Option<(u64, Due)> {
        let (order, stage) = self.take_stage(id)?;
        let due = match stage {
            Stage::Waits { sent, .. } | Stage::Out(sent) => sent.due,
            Stage::Received | Stage::Released | Stage::Former => Due::Nothing,
        };
        Some((order, due))
    }

    fn take_stage(&mut self, id: u16) -> Option<(u64, Stage)> {
        let Entry { order, stage } = self.by_id.remove(&id)?;
        self.outstanding -= u16::from(stage.is_outstanding());
        self.bytes -= stage.bytes();
        Some((order, stage))
    }

    fn change(&mut self, id: u16, to: impl FnOnce(Stage) -> Stage) {
        if let Some((order, stage)) = self.take_stage(id) {
            self.put_at(order, id, to(stage));
        }
    }
}

impl Stage {
    /// Whether the client's receive maximum counts it. That may be one too many after a PUBREL that was sent again.
    fn is_outstanding(&self) -> bool {
        matches!(self, Self::Out(_) | Self::Received | Self::Released)
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Waits { sent, .. } | Self::Out(sent) => sent.bytes(),
            Self::Received | Self::Released | Self::Former => 0,
        }
    }
}

impl Sent {
    fn bytes(&self) -> usize {
        self.message.encoded().len() + self.coverage.as_ref().map_or(0, String::len) + 128
    }

    fn outbound(&self) -> Outbound {
        Outbound::Sent(self.due.mark().map(|mark| mark.message(&self.stamp)))
    }

    /// Writes the message. Returns whether the client takes one so long.
    pub(super) fn write(&self, out: &mut Out, (id, was_sent): (u16, bool), wall_ms: u64) -> bool {
        let mut properties = PropertyList::default();
        if out.version() == Version::V5 {
            properties = properties_of(&self.message);
            if let Some(seconds) = expiry_of(&self.message, &self.stamp, wall_ms) {
                properties.u32(0x02, seconds);
            }
            if let Some(identifier) = self.identifier {
                properties.variable(0x0b, identifier);
            }
            if let Some(coverage) = &self.coverage {
                properties.user(COVERAGE, coverage);
            }
        }
        let at = out.len();
        let is_taken = out.publish(
            self.message.topic(),
            (self.qos, id),
            self.retain,
            &properties,
            &self.message.payload(),
        );
        if is_taken && was_sent {
            // The flag DUP.
            out.bytes()[at] |= 8;
        }
        is_taken
    }
}

#[cfg(test)]
impl InFlight {
    /// Lets identifiers go on behind this one.
    pub(super) fn set_last(&mut self, last: u16) {
        self.last = last;
    }

    /// Asserts that the numbers are those of the entries.
    pub(super) fn check(&self) {
        let stages = || self.by_id.values().map(|entry| &entry.stage);
        assert_eq!(self.outstanding(), stages().filter(|stage| stage.is_outstanding()).count());
        assert_eq!(self.bytes, stages().map(Stage::bytes).sum::<usize>());
        assert_eq!(self.former_number(), stages().filter(|stage| matches!(stage, Stage::Former)).count());
    }
}
