//! The far end's answer to an opening: the first bytes that it sends on the stream.

use std::fmt;
use std::net::SocketAddr;

use super::fields::{self, Malformed};

const WHAT: &str = "answer";

/// The result of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The far end is connected to the target.
    Connected,
    /// The target refused the connection.
    Refused,
    /// The target's host cannot be reached.
    HostUnreachable,
    /// The target's network cannot be reached.
    NetworkUnreachable,
    /// The target did not answer in time.
    TimedOut,
    /// The name was not found.
    NameNotFound,
    /// The far end does not let this peer open this target.
    Denied,
    /// The far end has too many flows, for this peer or in all.
    Limit,
    /// The far end could not connect for another reason.
    Failed,
}

impl Outcome {
    const ALL: [Self; 9] = [
        Self::Connected,
        Self::Refused,
        Self::HostUnreachable,
        Self::NetworkUnreachable,
        Self::TimedOut,
        Self::NameNotFound,
        Self::Denied,
        Self::Limit,
        Self::Failed,
    ];

    fn code(self) -> u8 {
        Self::ALL.iter().position(|outcome| *outcome == self).map_or(u8::MAX, |at| at as u8)
    }

    /// The outcome of a code. One of a later version counts as a failure.
    fn of(code: u8) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Failed)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connected => "connected",
            Self::Refused => "the target refused the connection",
            Self::HostUnreachable => "the target's host is unreachable",
            Self::NetworkUnreachable => "the target's network is unreachable",
            Self::TimedOut => "the target did not answer",
            Self::NameNotFound => "the far end cannot find the name",
            Self::Denied => "the far end does not allow this key to open the target",
            Self::Limit => "the far end has too many flows",
            Self::Failed => "the far end could not connect",
        })
    }
}

/// Whether the far end compresses as the opening asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreement {
    /// It does not: it was not asked, does not know the method, or has too many contexts.
    #[default]
    Plain,
    /// It does.
    Compressed,
    /// It does, and without the dictionary, which it lacks.
    WithoutDictionary,
}

impl Agreement {
    const ALL: [Self; 3] = [Self::Plain, Self::Compressed, Self::WithoutDictionary];

    fn code(self) -> u8 {
        Self::ALL.iter().position(|agreement| *agreement == self).map_or(0, |at| at as u8)
    }

    fn of(code: Option<&u8>) -> Self {
        code.and_then(|code| Self::ALL.get(usize::from(*code))).copied().unwrap_or_default()
    }
}

/// An outcome, and the address that the far end used if it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The result of the opening.
    pub outcome: Outcome,
    /// The far end's own address on the connection.
    pub address: Option<SocketAddr>,
    /// Whether the flow is compressed.
    pub agreement: Agreement,
}

impl Answer {
    /// Creates an outcome without an address.
    pub const fn of(outcome: Outcome) -> Self {
        Self { outcome, address: None, agreement: Agreement::Plain }
    }

    /// Returns the answer as bytes: a length, the outcome, the address, and what was agreed on, if anything was.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut rest = self.address.map_or_else(Vec::new, fields::address_bytes);
        if self.agreement != Agreement::Plain {
            rest.push(self.agreement.code());
        }
        let mut bytes = vec![rest.len() as u8 + 1, self.outcome.code()];
        bytes.extend_from_slice(&rest);
        bytes
    }
}

/// Reads an answer from bytes as they come. Each may come alone.
#[derive(Clone, Debug, Default)]
pub struct AnswerReader(Vec<u8>);

impl AnswerReader {
    /// A reader that has read these bytes, which are not yet the whole answer.
    pub(crate) fn begun(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Returns the bytes that it has read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the number of bytes that the answer lacks, at least one until it is whole.
    pub fn wants(&self) -> usize {
        match self.0.first() {
            None => 1,
            Some(length) => (1 + usize::from(*length)).saturating_sub(self.0.len()),
        }
    }

    /// Takes bytes, at most as many as it [`wants`](Self::wants). Returns the answer once it is whole.
    ///
    /// # Errors
    /// The bytes are no answer.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Malformed> {
        debug_assert!(bytes.len() <= self.wants(), "what follows belongs to the program");
        self.0.extend_from_slice(bytes);
        if self.wants() > 0 {
            return Ok(None);
        }
        let (outcome, rest) = self.0[1..].split_first().ok_or(Malformed(WHAT))?;
        // A later version may add something.
        let address = [18, 6].into_iter().find_map(|length| fields::address(rest.get(..length)?));
        let length = address.map_or(0, |address| if address.is_ipv4() { 6 } else { 18 });
        let agreement = Agreement::of(rest.get(length));
        Ok(Some(Answer { outcome: Outcome::of(*outcome), address, agreement }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_a_byte_at_a_time() {
        for outcome in Outcome::ALL {
            for address in
                [None, Some("10.0.0.1:80".parse().unwrap()), Some("[2001:db8::1]:80".parse().unwrap())]
            {
                for agreement in Agreement::ALL {
                    let answer = Answer { outcome, address, agreement };
                    let mut reader = AnswerReader::default();
                    let mut last = None;
                    for byte in answer.to_bytes() {
                        assert!(last.is_none() && reader.wants() > 0);
                        last = reader.take(&[byte]).unwrap();
                    }
                    assert_eq!((last, reader.wants()), (Some(answer), 0));
                }
            }
        }
    }

    #[test]
    fn an_empty_answer_is_malformed_and_an_unknown_outcome_is_a_failure() {
        assert_eq!(AnswerReader::default().take(&[0]), Err(Malformed(WHAT)));
        let mut reader = AnswerReader::default();
        reader.take(&[1]).unwrap();
        assert_eq!(reader.take(&[99]).unwrap().map(|answer| answer.outcome), Some(Outcome::Failed));
    }
}
