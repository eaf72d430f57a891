//! Frames on the stream of a subscription.

use std::time::Duration;

use bytes::Bytes;

use super::error::{FrameError, Refusal};
use super::fields::{flag, millis, optional_text, put_millis, put_optional_text, put_text, text, u32_of};
use super::limits::{LONGEST_FILTER, LONGEST_NAME, LONGEST_SELECTOR};
use super::publishing::whole;
use super::telling::{TELLING, parse_telling};
use crate::codec::{Malformed, Parser, put_bytes, put_varint};
use crate::coverage::{ClusterId, Coverage, LONGEST_COVERAGE, SubscriptionId, Told};
use crate::message::{BrokerId, ChannelId};

/// A frame that a subscriber sends on the stream of its subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriberFrame {
    /// The first message: what is wanted.
    Subscribe(Subscribe),
    /// The coverage that a durable subscription has, and will not need again.
    Acknowledge(Coverage),
    /// The first message: the end of a durable subscription.
    End(DurableName),
}

/// A request to attach a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// The topic filter.
    pub filter: String,
    /// The selector.
    pub selector: Option<String>,
    /// Its kind: the state that is kept for it, and where it begins.
    pub kind: Kind,
    /// The way in which it recovers missed messages.
    pub recover: Recover,
    /// Its treatment if it is too slow.
    pub slow: Slow,
}

/// The kind of a subscription: the state that is kept for it, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: it begins live each time.
    Nondurable,
    /// The subscriber keeps its coverage.
    SemiDurable {
        /// Its state's name.
        id: SubscriptionId,
        /// The number of times it was attached. Of two devices with one state, the higher number is served.
        generation: u64,
        /// The cluster that the state belongs to; `None` if it is new.
        cluster: Option<ClusterId>,
        /// Its starting point.
        start: Start,
    },
    /// The brokers keep what it has not acknowledged.
    Durable {
        /// Its name.
        name: DurableName,
        /// The number of times it was attached, this time included. 0: once more than the brokers know. A client that has attached it
        /// before gives a higher number at each attempt.
        generation: u64,
        /// The subscriber's coverage, acknowledged or not.
        coverage: Coverage,
    },
}

/// The name of a durable subscription, 1 to [`LONGEST_NAME`] bytes. It belongs to the client's key.
pub type DurableName = String;

/// The starting point of a semi-durable subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// With what is published from now on.
    Live,
    /// With all that is held.
    Held,
    /// Behind the messages that it has.
    Coverage(Coverage),
}

/// The way in which a subscription recovers missed messages. Default: first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recover {
    /// Before what is new.
    #[default]
    First,
    /// Beside what is new.
    Beside,
    /// Only the newest of each key, before what is new. Messages without a key all come.
    NewestPerKey,
    /// Nothing older than this, before what is new.
    MaxAge(Duration),
}

/// The treatment of a subscription that is too slow, once it has caught up for the first time. Default: it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slow {
    /// It lags, until what it has not read is overwritten.
    #[default]
    Wait,
    /// If it lags behind by more arrivals than this, it passes over the oldest until it lags by half of it.
    DropOldest(u64),
    /// A message that waits is passed over if a newer one with its topic and key is there.
    ReplaceByKey,
    /// If it lags behind by more arrivals than this, it is sent away.
    Disconnect(u64),
}

/// A frame that a broker sends on the stream of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriptionFrame {
    /// The subscription is attached. It is not durable.
    Subscribed(Subscribed),
    /// The durable subscription is attached.
    Attached(Attached),
    /// The deliveries and reports about one channel, in this order.
    Told(ChannelId, Vec<Told>),
    /// It was refused, or has ended. The broker sends nothing more.
    Ended(Refusal),
    /// The answer to [`SubscriberFrame::End`]: whether there was such a subscription. The broker sends nothing more.
    Unsubscribed(bool),
}

/// The answer to [`SubscriberFrame::Subscribe`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribed {
    /// The selector in its normal form.
    pub selector: Option<String>,
    /// The channels to which messages of the filter can belong.
    pub channels: Vec<ChannelId>,
}

/// The answer to [`SubscriberFrame::Subscribe`] for a durable subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The selector and the channels.
    pub subscribed: Subscribed,
    /// The number of times it was attached, this time included.
    pub generation: u64,
    /// The brokers of the cluster that have not confirmed that they keep it: what they take of publishers meanwhile may not come.
    pub unconfirmed: Vec<BrokerId>,
}

const SUBSCRIBE: u8 = 1;
const ACKNOWLEDGE: u8 = 2;
const END: u8 = 3;
/// The kind of a durable subscription. 2 was one that is answered with [`Subscribed`].
const DURABLE: u8 = 3;
const SUBSCRIBED: u8 = 1;
// 2 is TELLING.
const ENDED: u8 = 3;
const UNSUBSCRIBED: u8 = 4;
const ATTACHED: u8 = 5;
/// The most brokers that have not confirmed.
const MOST_BROKERS: usize = 1_024;
/// The most channels of a subscription.
const MOST_CHANNELS: usize = crate::coverage::MOST_CHANNELS;

impl SubscriberFrame {
    /// Returns the frame as bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        match self {
            Self::Subscribe(subscribe) => {
                out.push(SUBSCRIBE);
                subscribe.encode(&mut out);
            }
            Self::Acknowledge(coverage) => {
                out.push(ACKNOWLEDGE);
                put_bytes(&mut out, &coverage.encode());
            }
            Self::End(name) => {
                out.push(END);
                put_text(&mut out, name);
            }
        }
        out.into()
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// The bytes are no frame.
    pub fn parse(bytes: &[u8]) -> Result<Self, FrameError> {
        let mut parser = Parser::new(bytes);
        let frame = match parser.byte()? {
            SUBSCRIBE => Self::Subscribe(Subscribe::parse(&mut parser)?),
            ACKNOWLEDGE => Self::Acknowledge(coverage(&mut parser)?),
            END => Self::End(text(&mut parser, LONGEST_NAME)?),
            _ => return Err(FrameError::Malformed),
        };
        whole(&parser, frame)
    }
}

fn coverage(parser: &mut Parser<'_>) -> Result<Coverage, Malformed> {
    Coverage::parse(parser.bytes(LONGEST_COVERAGE)?).map_err(|_| Malformed)
}

impl Subscribe {
    fn encode(&self, out: &mut Vec<u8>) {
        put_text(out, &self.filter);
        put_optional_text(out, self.selector.as_deref());
        self.kind.encode(out);
        match self.recover {
            Recover::First => out.push(0),
            Recover::Beside => out.push(1),
            Recover::NewestPerKey => out.push(2),
            Recover::MaxAge(age) => {
                out.push(3);
                put_millis(out, age);
            }
        }
        let (slow, number) = match self.slow {
            Slow::Wait => (0, None),
            Slow::DropOldest(lag) => (1, Some(lag)),
            Slow::ReplaceByKey => (2, None),
            Slow::Disconnect(lag) => (3, Some(lag)),
        };
        out.push(slow);
        number.into_iter().for_each(|lag| put_varint(out, lag));
    }

    fn parse(parser: &mut Parser<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            filter: text(parser, LONGEST_FILTER)?,
            selector: optional_text(parser, LONGEST_SELECTOR)?,
            kind: Kind::parse(parser)?,
            recover: match parser.byte()? {
                0 => Recover::First,
                1 => Recover::Beside,
                2 => Recover::NewestPerKey,
                3 => Recover::MaxAge(millis(parser)?),
                _ => return Err(Malformed),
            },
            slow: match parser.byte()? {
                0 => Slow::Wait,
                1 => Slow::DropOldest(parser.varint()?),
                2 => Slow::ReplaceByKey,
                3 => Slow::Disconnect(parser.varint()?),
                _ => return Err(Malformed),
            },
        })
    }
}

impl Kind {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nondurable => out.push(0),
            Self::SemiDurable { id, generation, cluster, start } => {
                out.push(1);
                out.extend_from_slice(&id.0.to_le_bytes());
                put_varint(out, *generation);
                out.push(cluster.is_some().into());
                cluster.iter().for_each(|cluster| out.extend_from_slice(&cluster.0.to_le_bytes()));
                match start {
                    Start::Live => out.push(0),
                    Start::Held => out.push(1),
                    Start::Coverage(coverage) => {
                        out.push(2);
                        put_bytes(out, &coverage.encode());
                    }
                }
            }
            Self::Durable { name, generation, coverage } => {
                out.push(DURABLE);
                put_text(out, name);
                put_varint(out, *generation);
                put_bytes(out, &coverage.encode());
            }
        }
    }

    fn parse(parser: &mut Parser<'_>) -> Result<Self, Malformed> {
        Ok(match parser.byte()? {
            0 => Self::Nondurable,
            1 => Self::SemiDurable {
                id: SubscriptionId(u128::from_le_bytes(parser.array()?)),
                generation: parser.varint()?,
                cluster: if flag(parser)? {
                    Some(ClusterId(u128::from_le_bytes(parser.array()?)))
                } else {
                    None
                },
                start: match parser.byte()? {
                    0 => Start::Live,
                    1 => Start::Held,
                    2 => Start::Coverage(coverage(parser)?),
                    _ => return Err(Malformed),
                },
            },
            DURABLE => Self::Durable {
                name: text(parser, LONGEST_NAME)?,
                generation: parser.varint()?,
                coverage: coverage(parser)?,
            },
            _ => return Err(Malformed),
        })
    }
}

impl SubscriptionFrame {
    /// Returns the frame as bytes. What is told is encoded by [`Telling`](super::Telling), too, which saves a list.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(64);
        match self {
            Self::Subscribed(Subscribed { selector, channels }) => {
                out.push(SUBSCRIBED);
                put_subscribed(&mut out, selector.as_deref(), channels);
            }
            Self::Attached(Attached { subscribed, generation, unconfirmed }) => {
                out.push(ATTACHED);
                put_subscribed(&mut out, subscribed.selector.as_deref(), &subscribed.channels);
                put_varint(&mut out, *generation);
                put_varint(&mut out, unconfirmed.len() as u64);
                unconfirmed.iter().for_each(|broker| out.extend_from_slice(&broker.0.to_le_bytes()));
            }
            Self::Told(channel, told) => {
                let mut telling = super::Telling::new(*channel);
                told.iter().for_each(|told| telling.push(told));
                return telling.finish();
            }
            Self::Ended(refusal) => {
                out.push(ENDED);
                refusal.encode(&mut out);
            }
            Self::Unsubscribed(was_there) => {
                out.push(UNSUBSCRIBED);
                out.push((*was_there).into());
            }
        }
        out.into()
    }

    /// Reads a frame.
    ///
    /// # Errors
    /// The bytes are no frame.
    pub fn parse(bytes: &Bytes) -> Result<Self, FrameError> {
        let mut parser = Parser::new(bytes);
        let frame = match parser.byte()? {
            SUBSCRIBED => Self::Subscribed(subscribed(&mut parser)?),
            ATTACHED => Self::Attached(Attached {
                subscribed: subscribed(&mut parser)?,
                generation: parser.varint()?,
                unconfirmed: {
                    let number = parser.number(MOST_BROKERS)?;
                    let brokers = (0..number).map(|_| parser.array().map(u64::from_le_bytes).map(BrokerId));
                    brokers.collect::<Result<_, _>>()?
                },
            }),
            TELLING => {
                let (channel, told) = parse_telling(bytes)?;
                return Ok(Self::Told(channel, told));
            }
            ENDED => Self::Ended(Refusal::parse(&mut parser)?),
            UNSUBSCRIBED => Self::Unsubscribed(flag(&mut parser)?),
            _ => return Err(FrameError::Malformed),
        };
        whole(&parser, frame)
    }
}

fn put_subscribed(out: &mut Vec<u8>, selector: Option<&str>, channels: &[ChannelId]) {
    put_optional_text(out, selector);
    put_varint(out, channels.len() as u64);
    channels.iter().for_each(|channel| put_varint(out, channel.0.into()));
}

fn subscribed(parser: &mut Parser<'_>) -> Result<Subscribed, Malformed> {
    let selector = optional_text(parser, LONGEST_SELECTOR)?;
    let number = parser.number(MOST_CHANNELS)?;
    let channels = (0..number).map(|_| u32_of(parser).map(ChannelId));
    Ok(Subscribed { selector, channels: channels.collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests;
