//! Frames about durable subscriptions.
//!
//! ```text
//! kept      8  name (text)  born  generation  owner (bytes)  filter (text)  [selector (text)]  channels (number), each: id
//! covered   9  name  born  generation  coverage (bytes)
//! ended    10  name  born  generation  left (ms)
//! has      11  name  born  generation
//! told all 12
//! tell all 13
//! attached 14  name  born  generation  digest of filter and selector (8 bytes)
//! covered  15  name  born  generation  digest of filter and selector (8 bytes)  coverage (bytes)
//! ```

use std::time::Duration;

use whimbrel_pubsub::codec::{Malformed, Parser, put_bytes, put_varint};
use whimbrel_pubsub::coverage::{Coverage, LONGEST_COVERAGE, MOST_CHANNELS};
use whimbrel_pubsub::frame::{LONGEST_FILTER, LONGEST_SELECTOR};

use super::{SAYS_MORE, channel};
use crate::durable::Life;
use crate::hub::{Word, is_of_session};
use crate::store::{DurableSubscription, Fact, SubscriptionName};

const KEPT: u8 = 8;
const COVERED: u8 = 9;
const ENDED: u8 = 10;
const HAS: u8 = 11;
const TOLD_ALL: u8 = 12;
const TELL_ALL: u8 = 13;
const ATTACHED: u8 = 14;
const COVERED_OF: u8 = 15;

/// The longest owner and name, bytes.
const LONGEST_NAME: usize = 1_024;

/// Whether a frame that begins so is about durable subscriptions.
pub(super) fn is_word(kind: u8) -> bool {
    (KEPT..=COVERED_OF).contains(&kind)
}

/// A word as a neighbour of this version may hear it.
pub(in crate::backbone) fn for_version(word: Word, version: u16) -> Option<Word> {
    match word {
        word if version >= SAYS_MORE => Some(word),
        Word::Attached { .. } => None,
        Word::Fact(Fact::Covered { name, life, coverage, .. }) => {
            Some(Word::Fact(Fact::Covered { name, life, selects: None, coverage }))
        }
        word => Some(word),
    }
}

pub(super) fn encode(word: &Word, out: &mut Vec<u8>) {
    match word {
        Word::Fact(Fact::Kept(subscription)) => {
            let DurableSubscription { name, owner, filter, selector, channels, .. } = subscription;
            put_head(out, KEPT, name, subscription.life());
            put_bytes(out, owner);
            put_bytes(out, filter.as_bytes());
            out.push(selector.is_some().into());
            selector.iter().for_each(|selector| put_bytes(out, selector.as_bytes()));
            put_varint(out, channels.len() as u64);
            channels.iter().for_each(|channel| put_varint(out, channel.0.into()));
        }
        Word::Fact(Fact::Covered { name, life, selects: None, coverage }) => {
            put_head(out, COVERED, name, *life);
            put_bytes(out, &coverage.encode());
        }
        Word::Fact(Fact::Covered { name, life, selects: Some(selects), coverage }) => {
            put_head(out, COVERED_OF, name, *life);
            out.extend_from_slice(&selects.to_le_bytes());
            put_bytes(out, &coverage.encode());
        }
        Word::Fact(Fact::Ended { name, life, left }) => {
            put_head(out, ENDED, name, *life);
            put_varint(out, u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        }
        Word::Confirmed { name, life } => put_head(out, HAS, name, *life),
        Word::Attached { name, life, selects } => {
            put_head(out, ATTACHED, name, *life);
            out.extend_from_slice(&selects.to_le_bytes());
        }
        Word::ToldAll => out.push(TOLD_ALL),
        Word::TellAll => out.push(TELL_ALL),
    }
}

/// Reads a word whose kind was read already.
pub(super) fn parse(kind: u8, parser: &mut Parser<'_>) -> Result<Word, Malformed> {
    Ok(match kind {
        KEPT => {
            let (name, life) = head(parser)?;
            let owner = parser.bytes(LONGEST_NAME)?.to_vec();
            // Owners have names of their own: nobody's subscription takes another's place.
            let hex: String = owner.iter().map(|byte| format!("{byte:02x}")).collect();
            if !name.as_str().strip_prefix(&hex).is_some_and(|rest| rest.starts_with('/')) {
                return Err(Malformed);
            }
            let filter = text(parser, LONGEST_FILTER)?;
            let selector = match parser.byte()? {
                0 => None,
                1 => Some(text(parser, LONGEST_SELECTOR)?),
                _ => return Err(Malformed),
            };
            let number = parser.number(MOST_CHANNELS)?;
            let channels = (0..number).map(|_| channel(parser)).collect::<Result<_, _>>()?;
            let Life { born, generation } = life;
            let kept = DurableSubscription { name, owner, filter, selector, channels, generation, born };
            Word::Fact(Fact::Kept(kept))
        }
        COVERED | COVERED_OF => {
            let (name, life) = head(parser)?;
            let selects = if kind == COVERED { None } else { Some(digest(parser)?) };
            let coverage = Coverage::parse(parser.bytes(LONGEST_COVERAGE)?).map_err(|_| Malformed)?;
            Word::Fact(Fact::Covered { name, life, selects, coverage })
        }
        ENDED => {
            let (name, life) = head(parser)?;
            Word::Fact(Fact::Ended { name, life, left: Duration::from_millis(parser.varint()?) })
        }
        HAS => {
            let (name, life) = head(parser)?;
            Word::Confirmed { name, life }
        }
        ATTACHED => {
            let (name, life) = head(parser)?;
            Word::Attached { name, life, selects: digest(parser)? }
        }
        TOLD_ALL => Word::ToldAll,
        TELL_ALL => Word::TellAll,
        _ => return Err(Malformed),
    })
}

fn put_head(out: &mut Vec<u8>, kind: u8, name: &SubscriptionName, Life { born, generation }: Life) {
    out.push(kind);
    put_bytes(out, name.as_str().as_bytes());
    put_varint(out, born);
    put_varint(out, generation);
}

fn head(parser: &mut Parser<'_>) -> Result<(SubscriptionName, Life), Malformed> {
    let name = SubscriptionName::new(&text(parser, LONGEST_NAME)?).map_err(|_| Malformed)?;
    // Sessions of MQTT clients are their broker's own.
    if is_of_session(&name) {
        return Err(Malformed);
    }
    Ok((name, Life { born: parser.varint()?, generation: parser.varint()? }))
}

fn digest(parser: &mut Parser<'_>) -> Result<u64, Malformed> {
    parser.array().map(u64::from_le_bytes)
}

fn text(parser: &mut Parser<'_>, most: usize) -> Result<String, Malformed> {
    String::from_utf8(parser.bytes(most)?.to_vec()).map_err(|_| Malformed)
}
