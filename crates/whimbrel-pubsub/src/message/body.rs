//! The encoded message and the places of its parts.
//!
//! ```text
//! flags (1 byte)  index (1 byte)  topic (length, bytes)
//! [key (length, bytes)]  [lifetime (varint, ms)]  [publisher (16 bytes)  number (varint)]  [properties (length, bytes)]
//! payload (the rest)
//! ```

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::error::MessageError;
use super::index::Index;
use super::limits::{LONGEST_KEY, LONGEST_MESSAGE};
use super::publication::Publication;
use crate::codec::{Malformed, Parser};
use crate::property::{self, Lookup, MAX_PROPERTIES_LEN, PropertyError, PropertyFault, Value};
use crate::topic::{MAX_TOPIC_LEN, Topic, check_topic};

pub(super) const RETAIN: u8 = 1;
pub(super) const REPEATED: u8 = 1 << 1;
pub(super) const KEY: u8 = 1 << 2;
pub(super) const LIFETIME: u8 = 1 << 3;
pub(super) const PUBLICATION: u8 = 1 << 4;
pub(super) const PROPERTIES: u8 = 1 << 5;
const KNOWN: u8 = RETAIN | REPEATED | KEY | LIFETIME | PUBLICATION | PROPERTIES;

impl From<Malformed> for MessageError {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// A published message. Its bytes are stored once; a clone shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    bytes: Bytes,
    topic: (u32, u32),
    key: (u32, u32),
    properties: (u32, u32),
    /// Where the publisher's id begins, if there is one.
    publication: u32,
    payload: u32,
    lifetime: u32,
    flags: u8,
    index: Index,
}

impl Message {
    /// Takes an encoded message apart.
    ///
    /// # Errors
    /// The bytes are no message, or a part of it is not allowed.
    pub fn parse(bytes: Bytes) -> Result<Self, MessageError> {
        if bytes.len() > LONGEST_MESSAGE {
            return Err(MessageError::TooLong(bytes.len()));
        }
        let mut parser = Parser::new(&bytes);
        let flags = parser.byte()?;
        if flags & !KNOWN != 0 {
            return Err(MessageError::Malformed);
        }
        let index = Index::new(parser.byte()?)?;
        let topic = part(&mut parser, MAX_TOPIC_LEN)?;
        let has = |bit: u8| flags & bit != 0;
        let key = if has(KEY) { part(&mut parser, LONGEST_KEY)? } else { (0, 0) };
        let lifetime = if has(LIFETIME) { parse_lifetime(&mut parser)? } else { 0 };
        let publication = parser.at() as u32;
        if has(PUBLICATION) {
            Publication::parse(&mut parser)?;
        }
        let properties = if has(PROPERTIES) { parse_properties(&mut parser, &bytes)? } else { (0, 0) };
        let payload = parser.at() as u32;
        check_topic(&bytes[range(topic)])?;
        Ok(Self { topic, key, properties, publication, payload, lifetime, flags, index, bytes })
    }

    /// Returns the message as it is sent on.
    pub fn encoded(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the topic.
    pub fn topic(&self) -> &str {
        // Parsing checked it.
        str::from_utf8(&self.bytes[range(self.topic)]).unwrap_or_default()
    }

    /// Returns the topic, for filters.
    pub fn to_topic(&self) -> Topic {
        Topic::of_checked(self.topic())
    }

    /// Returns the topic's bytes, which share the message's memory.
    pub fn topic_bytes(&self) -> Bytes {
        self.bytes.slice(range(self.topic))
    }

    /// Returns the encoded properties; empty if there are none.
    pub fn properties(&self) -> &[u8] {
        &self.bytes[range(self.properties)]
    }

    /// Returns the key.
    pub fn key(&self) -> Option<Bytes> {
        self.has(KEY).then(|| self.bytes.slice(range(self.key)))
    }

    /// Returns the importance.
    pub fn index(&self) -> Index {
        self.index
    }

    /// Returns the lifetime of the message, counted from its publication.
    pub fn lifetime(&self) -> Option<Duration> {
        self.has(LIFETIME).then(|| Duration::from_millis(self.lifetime.into()))
    }

    /// Returns whether it becomes the last value of its topic.
    pub fn is_retained(&self) -> bool {
        self.has(RETAIN)
    }

    /// Returns whether it may have been published before, which nobody can find out.
    pub fn is_possibly_repeated(&self) -> bool {
        self.has(REPEATED)
    }

    /// Returns its publisher, and its number among that publisher's messages.
    pub fn publication(&self) -> Option<Publication> {
        let mut parser = Parser::new(&self.bytes[self.publication as usize..]);
        // Parsing checked it.
        if self.has(PUBLICATION) { Publication::parse(&mut parser).ok() } else { None }
    }

    /// Returns the payload.
    pub fn payload(&self) -> Bytes {
        self.bytes.slice(self.payload as usize..)
    }

    fn has(&self, bit: u8) -> bool {
        self.flags & bit != 0
    }
}

impl Lookup for Message {
    fn property(&self, name: &str) -> Option<Value<'_>> {
        property::find(self.properties(), name)
    }

    fn each_property(&self, see: &mut dyn FnMut(&str, Value<'_>)) {
        property::each(self.properties()).for_each(|(name, value)| see(name, value));
    }
}

fn range((start, end): (u32, u32)) -> Range<usize> {
    start as usize..end as usize
}

/// The place of bytes behind their length. A message has at most 16 MiB, so that places fit into 32 bits.
fn part(parser: &mut Parser<'_>, most: usize) -> Result<(u32, u32), Malformed> {
    let length = parser.bytes(most)?.len();
    Ok(((parser.at() - length) as u32, parser.at() as u32))
}

fn parse_properties(parser: &mut Parser<'_>, bytes: &[u8]) -> Result<(u32, u32), MessageError> {
    let length = parser.number(bytes.len())?;
    if length > MAX_PROPERTIES_LEN {
        return Err(PropertyError::new(PropertyFault::TooLong).into());
    }
    let properties = parser.take(length)?;
    if properties.is_empty() {
        return Err(MessageError::Malformed);
    }
    property::check(properties)?;
    Ok(((parser.at() - length) as u32, parser.at() as u32))
}

fn parse_lifetime(parser: &mut Parser<'_>) -> Result<u32, MessageError> {
    match u32::try_from(parser.varint()?) {
        Ok(0) | Err(_) => Err(MessageError::Lifetime),
        Ok(millis) => Ok(millis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Draft, PublisherId};
    use proptest::prelude::*;

    /// `price = 4`.
    const PRICE: &[u8] = &[5, b'p', b'r', b'i', b'c', b'e', 17, 4];

    fn full() -> Draft<'static> {
        Draft {
            topic: "prices/fish",
            properties: PRICE,
            key: Some(b"cod"),
            index: Index::MOST,
            lifetime: Some(Duration::from_secs(3)),
            retain: true,
            possibly_repeated: true,
            publication: Some(Publication { publisher: PublisherId(7), number: 300 }),
            payload: b"4.20",
        }
    }

    #[test]
    fn a_message_comes_back_whole() {
        let message = full().finish().unwrap();
        let again = Message::parse(message.encoded().clone()).unwrap();
        assert_eq!(again, message);
        assert_eq!((again.topic(), again.properties()), ("prices/fish", PRICE));
        assert_eq!(again.property("price"), Some(Value::Integer(4)));
        assert_eq!((again.key().as_deref(), again.index()), (Some(&b"cod"[..]), Index::MOST));
        assert_eq!(again.lifetime(), Some(Duration::from_secs(3)));
        assert!(again.is_retained() && again.is_possibly_repeated());
        assert_eq!(again.publication(), Some(Publication { publisher: PublisherId(7), number: 300 }));
        assert_eq!(&again.payload()[..], b"4.20");
        let plain = Draft { topic: "t", ..Draft::default() }.finish().unwrap();
        assert_eq!((plain.key(), plain.lifetime(), plain.publication()), (None, None, None));
        assert_eq!((plain.index().number(), plain.payload().len(), plain.encoded().len()), (5, 0, 4));
    }

    #[test]
    fn what_is_not_allowed_is_refused_with_its_reason() {
        let refusal = |draft: Draft<'_>| draft.finish().unwrap_err().to_string();
        for (topic, why) in [("", "empty"), ("a/+/b", "wildcard"), ("#", "wildcard"), ("a\0b", "U+0000")] {
            let said = refusal(Draft { topic, ..full() });
            assert!(said.contains(why), "{topic:?}: {said}");
        }
        assert!(refusal(Draft { key: Some(&[0; LONGEST_KEY + 1]), ..full() }).contains("1025 bytes"));
        assert!(refusal(Draft { properties: &[0; 65_536], ..full() }).contains("at most 16383 bytes"));
        let reserved = &[4, b'J', b'M', b'S', b'x', 16];
        assert!(refusal(Draft { properties: reserved, ..full() }).contains("reserved for the broker"));
        assert!(refusal(Draft { lifetime: Some(Duration::ZERO), ..full() }).contains("1 ms"));
        assert!(refusal(Draft { payload: &vec![0; LONGEST_MESSAGE], ..full() }).contains("16 MiB"));
        assert_eq!(Index::new(11), Err(MessageError::Index(11)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read_in_one_way(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(message) = Message::parse(bytes.clone().into()) {
                prop_assert_eq!(&message.encoded()[..], &bytes[..]);
                let draft = Draft {
                    topic: message.topic(),
                    properties: message.properties(),
                    key: message.key().as_deref(),
                    index: message.index(),
                    lifetime: message.lifetime(),
                    retain: message.is_retained(),
                    possibly_repeated: message.is_possibly_repeated(),
                    publication: message.publication(),
                    payload: &message.payload(),
                }.finish().unwrap();
                prop_assert_eq!(draft.encoded(), message.encoded());
            }
        }

        #[test]
        fn a_changed_message_panics_nowhere(at: prop::sample::Index, to: u8) {
            let mut bytes = full().finish().unwrap().encoded().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = to;
            if let Ok(message) = Message::parse(bytes.into()) {
                prop_assert!(!message.topic().is_empty());
                prop_assert!(message.payload().len() < 100);
            }
        }
    }
}
