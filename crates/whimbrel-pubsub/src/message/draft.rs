//! A message that is being written.

use std::time::Duration;

use super::body;
use super::body::Message;
use super::error::MessageError;
use super::index::Index;
use super::lifetime::in_millis;
use super::limits::{LONGEST_KEY, LONGEST_MESSAGE};
use super::publication::Publication;
use crate::codec::{put_bytes, put_varint};

/// A message as its publisher writes it. [`Draft::finish`] encodes it.
#[derive(Clone, Debug, Default)]
pub struct Draft<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The encoded properties, as [`Properties`](crate::property::Properties) has them. Default: none.
    pub properties: &'a [u8],
    /// The key. A newer message of the same topic and key may replace this one. Default: none.
    pub key: Option<&'a [u8]>,
    /// The importance. Default: 5.
    pub index: Index,
    /// The time after which nobody wants the message any more. Default: none.
    pub lifetime: Option<Duration>,
    /// Whether brokers keep it as the last value of its topic. An empty payload removes that value. Default: no.
    pub retain: bool,
    /// Whether it may have been published before, which nobody can find out. Default: no.
    pub possibly_repeated: bool,
    /// Its publisher, and its number among that publisher's messages. Default: not known.
    pub publication: Option<Publication>,
    /// The payload.
    pub payload: &'a [u8],
}

impl Draft<'_> {
    /// Encodes the message.
    ///
    /// # Errors
    /// A part is longer than allowed, or the topic or lifetime cannot be used.
    pub fn finish(&self) -> Result<Message, MessageError> {
        self.check()?;
        let mut out = Vec::with_capacity(self.payload.len() + self.topic.len() + self.properties.len() + 64);
        self.encode_head(&mut out)?;
        out.extend_from_slice(self.payload);
        if out.len() > LONGEST_MESSAGE {
            return Err(MessageError::TooLong(out.len()));
        }
        Message::parse(out.into())
    }

    fn check(&self) -> Result<(), MessageError> {
        match self.key {
            Some(key) if key.len() > LONGEST_KEY => Err(MessageError::Key(key.len())),
            _ => Ok(()),
        }
    }

    fn encode_head(&self, out: &mut Vec<u8>) -> Result<(), MessageError> {
        out.push(self.flags());
        out.push(self.index.number());
        put_bytes(out, self.topic.as_bytes());
        if let Some(key) = self.key {
            put_bytes(out, key);
        }
        if let Some(lifetime) = self.lifetime {
            put_varint(out, in_millis(lifetime)?.into());
        }
        if let Some(publication) = &self.publication {
            publication.encode(out);
        }
        if !self.properties.is_empty() {
            put_bytes(out, self.properties);
        }
        Ok(())
    }

    fn flags(&self) -> u8 {
        let flag = |bit: u8, set: bool| if set { bit } else { 0 };
        flag(body::RETAIN, self.retain)
            | flag(body::REPEATED, self.possibly_repeated)
            | flag(body::KEY, self.key.is_some())
            | flag(body::LIFETIME, self.lifetime.is_some())
            | flag(body::PUBLICATION, self.publication.is_some())
            | flag(body::PROPERTIES, !self.properties.is_empty())
    }
}
