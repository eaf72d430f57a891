//! Protocols over TCP, as far as raw clients need them.

/// A protocol over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// MQTT 3.1.1 at QoS 0.
    Mqtt,
    /// That of NATS.
    Nats,
}

/// Something that the broker sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    Payload(&'a [u8]),
    /// The subscription stands.
    Subscribed,
}

const TOPIC: &str = "fan/out";

impl Wire {
    /// The first bytes of a client.
    pub(crate) fn hello(self, number: usize) -> Vec<u8> {
        match self {
            Self::Mqtt => {
                let name = format!("c{number}");
                let mut out = vec![0x10, 12 + name.len() as u8, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0];
                put_text(&mut out, &name);
                out
            }
            Self::Nats => b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\n".to_vec(),
        }
    }

    /// Subscribes to the topic, and has that answered.
    pub(crate) fn subscribe(self) -> Vec<u8> {
        match self {
            Self::Mqtt => {
                let mut out = vec![0x82, 5 + TOPIC.len() as u8, 0, 1];
                put_text(&mut out, TOPIC);
                out.push(0);
                out
            }
            Self::Nats => b"SUB fan.out 1\r\nPING\r\n".to_vec(),
        }
    }

    /// Appends a message to the topic.
    pub(crate) fn publish(self, out: &mut Vec<u8>, payload: &[u8]) {
        match self {
            Self::Mqtt => {
                out.extend_from_slice(&[0x30, (2 + TOPIC.len() + payload.len()) as u8]);
                put_text(out, TOPIC);
                out.extend_from_slice(payload);
            }
            Self::Nats => {
                out.extend_from_slice(format!("PUB fan.out {}\r\n", payload.len()).as_bytes());
                out.extend_from_slice(payload);
                out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Shows what the broker sent. Returns the bytes that are done with.
    pub(crate) fn scan(self, bytes: &[u8], mut see: impl FnMut(Item<'_>)) -> usize {
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

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
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
            let topic = usize::from(u16::from_be_bytes([*body.first()?, *body.get(1)?]));
            Some(Item::Payload(body.get(2 + topic..)?))
        }
        9 => Some(Item::Subscribed),
        _ => None,
    };
    Some((head + length, item))
}

fn nats(bytes: &[u8]) -> Option<(usize, Option<Item<'_>>)> {
    let line = bytes.iter().position(|byte| *byte == b'\n')?;
    let text = &bytes[..line];
    if !text.starts_with(b"MSG ") {
        return Some((line + 1, text.starts_with(b"PONG").then_some(Item::Subscribed)));
    }
    let digits = text.trim_ascii_end().rsplit(|byte| *byte == b' ').next()?;
    let length = digits.iter().fold(0, |number, digit| 10 * number + usize::from(digit & 15));
    let payload = bytes.get(line + 1..line + 1 + length)?;
    bytes.get(line + 2 + length)?;
    Some((line + 3 + length, Some(Item::Payload(payload))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a broker, cut at any place.
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
    fn payloads_come_out_wherever_reads_end() {
        let (one, other) = (Item::Payload(b"one"), Item::Payload(b"\r\n2"));
        let nats = b"INFO {}\r\nPONG\r\nMSG fan.out 1 3\r\none\r\nPING\r\nMSG fan.out 1 3\r\n\r\n2\r\n";
        comes(Wire::Nats, nats, &[Item::Subscribed, one, other]);
        let mut mqtt = vec![0x20, 2, 0, 0, 0x90, 3, 0, 1, 0];
        Wire::Mqtt.publish(&mut mqtt, b"one");
        comes(Wire::Mqtt, &mqtt, &[Item::Subscribed, Item::Payload(b"one")]);
    }
}
