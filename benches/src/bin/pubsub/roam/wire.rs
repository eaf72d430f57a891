//! Protocols over TCP, as far as raw clients need them: MQTT 3.1.1 at QoS 1, and that of NATS with JetStream.

use bytes::BytesMut;

/// A protocol over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Mqtt,
    Nats,
}

/// Something that the broker sends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// A payload, and what acknowledges it: a packet's identifier, or a subject. It may be empty.
    Payload(&'a [u8], &'a [u8]),
    /// The subscription stands, or what was asked for is done.
    Done,
}

/// The subject or topic of a tenth.
fn topic(wire: Wire, tenth: usize) -> String {
    match wire {
        Wire::Mqtt => format!("roam/{tenth}"),
        Wire::Nats => format!("roam.{tenth}"),
    }
}

/// The stream that keeps what is published.
const STREAM: &str = "ROAM";
/// The subject on which answers to requests come.
const INBOX: &str = "_INBOX.roam";

impl Wire {
    /// The first bytes of a client. `is_kept`: its session is kept while it is away.
    pub(super) fn hello(self, name: &str, is_kept: bool) -> Vec<u8> {
        match self {
            Self::Mqtt => {
                let clean = if is_kept { 0 } else { 2 };
                let mut out = vec![0x10, 12 + name.len() as u8, 0, 4, b'M', b'Q', b'T', b'T', 4, clean, 0, 0];
                put_text(&mut out, name);
                out
            }
            Self::Nats => b"CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true}\r\n".to_vec(),
        }
    }

    /// The request that prepares the broker before anybody comes, and its answer. `None`: there is none.
    pub(super) fn prepare(self, seconds_held: f64) -> Option<Vec<u8>> {
        (self == Self::Nats).then(|| {
            let config = format!(
                "{{\"name\":\"{STREAM}\",\"subjects\":[\"roam.*\"],\"storage\":\"memory\",\"retention\":\"limits\",\"max_age\":{}}}",
                (seconds_held * 1e9) as u64
            );
            request(&format!("$JS.API.STREAM.CREATE.{STREAM}"), &config)
        })
    }

    /// Makes a subscription that the broker keeps while its subscriber is away, if that needs a request of its own.
    pub(super) fn keep(self, name: &str, tenth: usize) -> Option<Vec<u8>> {
        (self == Self::Nats).then(|| {
            // One acknowledgement stands for all before it, which costs the broker least.
            let config = format!(
                "{{\"stream_name\":\"{STREAM}\",\"config\":{{\"durable_name\":\"{name}\",\"deliver_subject\":\"to.{name}\",\
                 \"deliver_policy\":\"all\",\"ack_policy\":\"all\",\"ack_wait\":500000000,\"max_ack_pending\":100000,\
                 \"filter_subject\":\"{}\"}}}}",
                topic(self, tenth)
            );
            request(&format!("$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{name}"), &config)
        })
    }

    /// Subscribes, and has that answered.
    pub(super) fn subscribe(self, name: &str, tenth: usize) -> Vec<u8> {
        match self {
            Self::Mqtt => {
                let topic = topic(self, tenth);
                let mut out = vec![0x82, 5 + topic.len() as u8, 0, 1];
                put_text(&mut out, &topic);
                out.push(1);
                out
            }
            Self::Nats => format!("SUB to.{name} 1\r\nPING\r\n").into_bytes(),
        }
    }

    /// Appends a message.
    pub(super) fn publish(self, out: &mut Vec<u8>, tenth: usize, number: u16, payload: &[u8]) {
        let topic = topic(self, tenth);
        match self {
            Self::Mqtt => {
                out.push(0x32);
                put_length(out, 4 + topic.len() + payload.len());
                put_text(out, &topic);
                out.extend_from_slice(&number.to_be_bytes());
                out.extend_from_slice(payload);
            }
            Self::Nats => {
                out.extend_from_slice(format!("PUB {topic} {}\r\n", payload.len()).as_bytes());
                out.extend_from_slice(payload);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Appends the acknowledgement of a message.
    pub(super) fn acknowledge(self, out: &mut BytesMut, what: &[u8]) {
        match self {
            Self::Mqtt => {
                out.extend_from_slice(&[0x40, 2]);
                out.extend_from_slice(what);
            }
            Self::Nats => {
                out.extend_from_slice(b"PUB ");
                out.extend_from_slice(what);
                out.extend_from_slice(b" 4\r\n+ACK\r\n");
            }
        }
    }

    /// Whether an acknowledgement stands for all messages before it.
    pub(super) fn acknowledges_all(self) -> bool {
        self == Self::Nats
    }

    /// Shows what the broker sent. Returns the bytes that are done with.
    pub(super) fn scan(self, bytes: &[u8], mut see: impl FnMut(Item<'_>)) -> usize {
        let mut at = 0;
        while let Some((length, item)) = match self {
            Self::Mqtt => mqtt(&bytes[at..]),
            Self::Nats => nats(&bytes[at..]),
        } {
            item.into_iter().for_each(&mut see);
            at += length;
        }
        at
    }
}

/// A request whose answer comes to [`INBOX`].
fn request(subject: &str, body: &str) -> Vec<u8> {
    format!("SUB {INBOX} 9\r\nPUB {subject} {INBOX} {}\r\n{body}\r\n", body.len()).into_bytes()
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Writes a length of MQTT.
fn put_length(out: &mut Vec<u8>, mut length: usize) {
    while length > 0x7f {
        out.push(0x80 | (length & 0x7f) as u8);
        length >>= 7;
    }
    out.push(length as u8);
}

fn mqtt(bytes: &[u8]) -> Option<(usize, Option<Item<'_>>)> {
    let (first, mut length, mut head) = (*bytes.first()?, 0, 1);
    loop {
        let byte = *bytes.get(head)?;
        length |= usize::from(byte & 0x7f) << (7 * (head - 1));
        head += 1;
        if byte & 0x80 == 0 || head == 5 {
            break;
        }
    }
    let body = bytes.get(head..head + length)?;
    let item = match first >> 4 {
        3 => {
            let topic = 2 + usize::from(u16::from_be_bytes([*body.first()?, *body.get(1)?]));
            let id = if first & 6 == 0 { 0 } else { 2 };
            Some(Item::Payload(body.get(topic + id..)?, body.get(topic..topic + id)?))
        }
        9 => Some(Item::Done),
        _ => None,
    };
    Some((head + length, item))
}

fn nats(bytes: &[u8]) -> Option<(usize, Option<Item<'_>>)> {
    let line = bytes.iter().position(|byte| *byte == b'\n')?;
    let text = bytes[..line].trim_ascii_end();
    if !text.starts_with(b"MSG ") {
        return Some((line + 1, text.starts_with(b"PONG").then_some(Item::Done)));
    }
    let mut words = text.split(|byte| *byte == b' ').skip(1);
    let subject = words.next()?;
    let rest: Vec<&[u8]> = words.skip(1).collect();
    let (reply, digits) = match rest[..] {
        [digits] => (&[][..], digits),
        [reply, digits] => (reply, digits),
        _ => return Some((line + 1, None)),
    };
    let length = digits.iter().fold(0, |number, digit| 10 * number + usize::from(digit & 15));
    let payload = bytes.get(line + 1..line + 1 + length)?;
    bytes.get(line + 2 + length)?;
    let item = if subject == INBOX.as_bytes() { Item::Done } else { Item::Payload(payload, reply) };
    Some((line + 3 + length, Some(item)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows the bytes of a broker, cut at any place.
    fn comes(wire: Wire, sent: &[u8], expected: &[Item<'_>]) {
        for cut in 0..sent.len() {
            let mut seen = 0;
            let mut see = |item: Item<'_>| {
                assert_eq!(item, expected[seen]);
                seen += 1;
            };
            let done = wire.scan(&sent[..cut], &mut see);
            assert_eq!(wire.scan(&sent[done..], &mut see), sent.len() - done);
            assert_eq!(seen, expected.len());
        }
    }

    #[test]
    fn payloads_come_out_with_what_acknowledges_them() {
        let nats = b"INFO {}\r\nPONG\r\nMSG _INBOX.roam 9 2\r\n{}\r\nMSG to.c1 1 $JS.ACK.x 3\r\none\r\nMSG to.c1 1 2\r\n\r\n\r\n";
        let all = [Item::Done, Item::Done, Item::Payload(b"one", b"$JS.ACK.x"), Item::Payload(b"\r\n", b"")];
        comes(Wire::Nats, nats, &all);
        let mut mqtt = vec![0x20, 2, 0, 0, 0x90, 3, 0, 1, 1];
        let long = [b'l'; 300];
        Wire::Mqtt.publish(&mut mqtt, 3, 258, b"one");
        Wire::Mqtt.publish(&mut mqtt, 3, 7, &long);
        comes(
            Wire::Mqtt,
            &mqtt,
            &[Item::Done, Item::Payload(b"one", &[1, 2]), Item::Payload(&long, &[0, 7])],
        );
    }
}
