//! Messages of DNS (RFC 1035), as far as a cache has to know them: one question, and how long an answer is valid.

use std::time::Duration;

/// Bytes of a header.
const HEADER: usize = 12;
/// The most records of an answer that are looked at. Longer answers are not kept.
const MOST_RECORDS: usize = 128;
/// The longest that an answer is valid here, whatever it says; and one that says that there is nothing.
const LONGEST: u32 = 3_600;
const LONGEST_NEGATIVE: u32 = 300;

const TYPE_SOA: u16 = 6;
const TYPE_OPT: u16 = 41;
const NO_ERROR: u8 = 0;
const NO_SUCH_NAME: u8 = 3;

/// A question, in a query that a cache may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// By it the program knows the answer.
    pub(super) id: [u8; 2],
    /// The key that equal answers share: the name in lower case with type and class, the flags that matter, and what the program said of
    /// itself (EDNS).
    pub(super) key: Box<[u8]>,
    /// The question as it was written.
    pub(super) question: Box<[u8]>,
}

/// An answer that may be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DnsAnswer {
    pub(super) message: Vec<u8>,
    /// Where its times to live are.
    times: Vec<usize>,
    /// How long it is valid.
    pub(super) valid: Duration,
}

/// Reads a message from front to end.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

struct Record {
    kind: u16,
    class: u16,
    /// Where its time to live is.
    time: usize,
    data: usize,
    length: usize,
}

impl Reader<'_> {
    fn u16(&mut self) -> Option<u16> {
        let bytes = self.message.get(self.at..self.at + 2)?;
        self.at += 2;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        self.at = self.at.checked_add(length).filter(|end| *end <= self.message.len())?;
        Some(())
    }

    /// Passes over a name. A pointer ends it, and is not followed.
    fn skip_name(&mut self) -> Option<()> {
        loop {
            match *self.message.get(self.at)? {
                0 => return self.skip(1),
                length @ 1..=63 => self.skip(1 + usize::from(length))?,
                0xc0.. => return self.skip(2),
                _ => return None,
            }
        }
    }

    fn record(&mut self) -> Option<Record> {
        self.skip_name()?;
        let (kind, class, time) = (self.u16()?, self.u16()?, self.at);
        self.skip(4)?;
        let length = usize::from(self.u16()?);
        let data = self.at;
        self.skip(length)?;
        Some(Record { kind, class, time, data, length })
    }
}

fn u32_at(message: &[u8], at: usize) -> Option<u32> {
    message.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn counts(message: &[u8]) -> Option<[u16; 4]> {
    let mut reader = Reader { message, at: 4 };
    Some([reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?])
}

/// Returns where the only question ends. A pointer has nothing to point to there.
fn question_end(message: &[u8]) -> Option<usize> {
    let mut reader = Reader { message, at: HEADER };
    loop {
        match *message.get(reader.at)? {
            0 => break reader.skip(1)?,
            length @ 1..=63 => reader.skip(1 + usize::from(length))?,
            _ => return None,
        }
    }
    reader.skip(4)?;
    Some(reader.at)
}

impl Query {
    /// Reads a query. `None`: a cache cannot answer it.
    pub(super) fn read(message: &[u8]) -> Option<Self> {
        let [1, 0, 0, additional @ 0..=1] = counts(message)? else { return None };
        let (flags, more_flags) = (message[2], message[3]);
        // Neither an answer, nor cut off, nor another kind of request.
        if flags & 0b1111_1010 != 0 {
            return None;
        }
        let end = question_end(message)?;
        let question = &message[HEADER..end];
        let mut key = question.to_ascii_lowercase();
        // Whether recursion is desired, whether checking is disabled, and whether it asks for verified data.
        key.extend([flags & 1, more_flags & 0x30]);
        let mut reader = Reader { message, at: end };
        if additional == 1 {
            let opt = reader.record()?;
            // Options, such as a cookie, belong to this program alone.
            if opt.kind != TYPE_OPT || opt.length > 0 {
                return None;
            }
            key.extend(opt.class.to_be_bytes());
            key.extend(u32_at(message, opt.time)?.to_be_bytes());
        }
        let is_whole = reader.at == message.len();
        is_whole.then(|| Self { id: [message[0], message[1]], key: key.into(), question: question.into() })
    }
}

impl DnsAnswer {
    /// Reads the answer to a query. `None`: it answers something else, or must not be kept.
    pub(super) fn read(message: &[u8], query: &Query) -> Option<Self> {
        let [1, answers, authorities, additional] = counts(message)? else { return None };
        let end = question_end(message)?;
        let code = message[3] & 0xf;
        // An answer, whole, of an ordinary query.
        let is_answer = message[2] & 0b1111_1010 == 0b1000_0000;
        let is_sure = code == NO_ERROR || code == NO_SUCH_NAME;
        if message[..2] != query.id || message[HEADER..end] != *query.question || !is_answer || !is_sure {
            return None;
        }
        let count = usize::from(answers) + usize::from(authorities) + usize::from(additional);
        if count > MOST_RECORDS {
            return None;
        }
        let (mut reader, mut times) = (Reader { message, at: end }, Vec::new());
        let (mut least, mut nothing) = (LONGEST, None);
        for at in 0..count {
            let record = reader.record()?;
            // There it means something else.
            if record.kind == TYPE_OPT {
                // What was said to this program alone.
                if record.length > 0 {
                    return None;
                }
                continue;
            }
            let time = u32_at(message, record.time)?;
            // RFC 2181 section 8.
            least = least.min(if time > i32::MAX as u32 { 0 } else { time });
            let is_authority =
                (usize::from(answers)..usize::from(answers) + usize::from(authorities)).contains(&at);
            if is_authority && record.kind == TYPE_SOA {
                // Its last number (RFC 2308 section 4).
                nothing = Some(u32_at(message, (record.data + record.length).checked_sub(4)?)?);
            }
            times.push(record.time);
        }
        if reader.at != message.len() {
            return None;
        }
        let valid = match nothing {
            _ if code == NO_ERROR && answers > 0 => least,
            Some(minimum) => least.min(minimum).min(LONGEST_NEGATIVE),
            // Nobody says for how long there is nothing (RFC 2308 section 5).
            None => return None,
        };
        let valid = Duration::from_secs(valid.into());
        (!valid.is_zero()).then(|| Self { message: message.to_vec(), times, valid })
    }

    /// Returns it as the answer to this query, which has the same key, after so long.
    pub(super) fn for_query(&self, query: &Query, age: Duration) -> Vec<u8> {
        let mut message = self.message.clone();
        message[..2].copy_from_slice(&query.id);
        // Some write names in capitals at random, and expect them back.
        message[HEADER..HEADER + query.question.len()].copy_from_slice(&query.question);
        let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        for at in &self.times {
            let left = u32_at(&message, *at).unwrap_or_default().saturating_sub(age);
            message[*at..*at + 4].copy_from_slice(&left.to_be_bytes());
        }
        message
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A name as it is written in a message.
    fn name(text: &str) -> Vec<u8> {
        let labels = text.split('.').filter(|label| !label.is_empty());
        let mut bytes: Vec<u8> =
            labels.flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
        bytes.push(0);
        bytes
    }

    fn head(id: u16, flags: u16, counts: [u16; 4]) -> Vec<u8> {
        [id, flags].into_iter().chain(counts).flat_map(u16::to_be_bytes).collect()
    }

    fn record(owner: &[u8], kind: u16, time: u32, data: &[u8]) -> Vec<u8> {
        let length = (data.len() as u16).to_be_bytes();
        [owner, &kind.to_be_bytes(), &[0, 1], &time.to_be_bytes(), &length, data].concat()
    }

    pub(crate) fn query(id: u16, text: &str) -> Vec<u8> {
        [head(id, 0x0100, [1, 0, 0, 0]), name(text), vec![0, 1, 0, 1]].concat()
    }

    /// An answer with an address.
    pub(crate) fn answer(id: u16, text: &str, time: u32, last: u8) -> Vec<u8> {
        let question = [name(text), vec![0, 1, 0, 1]].concat();
        [head(id, 0x8180, [1, 1, 0, 0]), question, record(&[0xc0, 12], 1, time, &[192, 0, 2, last])].concat()
    }

    fn nothing(id: u16, text: &str, code: u16, soa: Option<(u32, u32)>) -> Vec<u8> {
        let question = [name(text), vec![0, 1, 0, 1]].concat();
        let soa = soa.map(|(time, minimum)| {
            let data = [name("ns"), name("admin"), vec![0; 16], minimum.to_be_bytes().to_vec()].concat();
            record(&name("org"), TYPE_SOA, time, &data)
        });
        let count = u16::from(soa.is_some());
        [head(id, 0x8180 | code, [1, 0, count, 0]), question, soa.unwrap_or_default()].concat()
    }

    #[test]
    fn an_answer_comes_back_with_what_is_left_of_its_time() {
        let asked = Query::read(&query(7, "example.org")).unwrap();
        let kept = DnsAnswer::read(&answer(7, "example.org", 60, 9), &asked).unwrap();
        assert_eq!(kept.valid, Duration::from_secs(60));
        let again = Query::read(&query(9, "eXaMple.ORG")).unwrap();
        assert_eq!(again.key, asked.key);
        assert_eq!(kept.for_query(&again, Duration::from_millis(20_900)), answer(9, "eXaMple.ORG", 40, 9));
    }

    #[test]
    fn what_a_query_says_of_itself_makes_it_another() {
        let plain = query(7, "example.org");
        let key = |message: &[u8]| Query::read(message).map(|query| query.key);
        let with_opt = |size: u16, flags: u32, data: &[u8]| {
            let mut message = plain.clone();
            message[11] = 1;
            let head =
                [&[0][..], &TYPE_OPT.to_be_bytes(), &size.to_be_bytes(), &flags.to_be_bytes()].concat();
            [message, head, (data.len() as u16).to_be_bytes().to_vec(), data.to_vec()].concat()
        };
        let keys = [
            key(&plain),
            key(&with_opt(1232, 0, &[])),
            key(&with_opt(4096, 0, &[])),
            key(&with_opt(1232, 0x8000, &[])),
        ];
        for (at, one) in keys.iter().enumerate() {
            assert!(one.is_some() && keys[..at].iter().all(|other| other != one), "{at}");
        }
        // A cookie is for one program.
        assert_eq!(key(&with_opt(1232, 0, &[0, 10, 0, 2, 1, 2])), None);
    }

    #[test]
    fn only_what_answers_the_question_for_sure_is_kept() {
        let asked = Query::read(&query(7, "a.org")).unwrap();
        let valid = |message: &[u8]| DnsAnswer::read(message, &asked).map(|answer| answer.valid.as_secs());
        assert_eq!(valid(&answer(7, "a.org", 1 << 20, 1)), Some(u64::from(LONGEST)));
        assert_eq!(valid(&nothing(7, "a.org", 3, Some((900, 60)))), Some(60));
        assert_eq!(valid(&nothing(7, "a.org", 0, Some((20, 60)))), Some(20));
        assert_eq!(valid(&nothing(7, "a.org", 3, Some((90_000, 90_000)))), Some(u64::from(LONGEST_NEGATIVE)));
        for (wrong, why) in [
            (answer(8, "a.org", 60, 1), "another id"),
            (answer(7, "b.org", 60, 1), "another question"),
            (answer(7, "A.org", 60, 1), "not as it was asked"),
            (answer(7, "a.org", 0, 1), "no time"),
            (answer(7, "a.org", u32::MAX, 1), "a negative time"),
            (nothing(7, "a.org", 3, None), "for how long?"),
            (nothing(7, "a.org", 2, Some((60, 60))), "the server failed"),
            (query(7, "a.org"), "no answer"),
        ] {
            assert_eq!(valid(&wrong), None, "{why}");
        }
        let mut cut_off = answer(7, "a.org", 60, 1);
        cut_off[2] |= 2;
        assert_eq!(valid(&cut_off), None);
    }

    #[test]
    fn hostile_bytes_do_no_harm() {
        let asked = Query::read(&query(7, "a.org")).unwrap();
        let good = [query(7, "a.org"), answer(7, "a.org", 60, 1), nothing(7, "a.org", 3, Some((9, 9)))];
        for (seed, good) in (0..60_000_u32).zip(good.iter().cycle()) {
            let mut bytes = good.clone();
            let random = seed.wrapping_mul(2_654_435_761);
            let at = random as usize % bytes.len();
            bytes[at] = (random >> 16) as u8;
            bytes.truncate(bytes.len() - (random >> 28) as usize);
            drop(Query::read(&bytes));
            drop(DnsAnswer::read(&bytes, &asked));
        }
        for length in 0..HEADER {
            assert_eq!(Query::read(&good[0][..length]), None);
            assert_eq!(DnsAnswer::read(&good[1][..length], &asked), None);
        }
        // Half a million records in a header are not looked for.
        let mut many = answer(7, "a.org", 60, 1);
        many[6..8].copy_from_slice(&[255, 255]);
        assert_eq!(DnsAnswer::read(&many, &asked), None);
    }
}
