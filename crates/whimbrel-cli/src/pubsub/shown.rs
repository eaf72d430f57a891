//! The events of a subscription, as people and programs read them.

use std::io::{self, Write};

use serde_json::json;
use whimbrel_broker::hub::broker_text;
use whimbrel_pubsub::client::Event;
use whimbrel_pubsub::coverage::{Delivery, Fate};
use whimbrel_pubsub::property::{Lookup, Value};

use crate::output::{note, output_error};

/// How messages are printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) json: bool,
    pub(super) topics: bool,
}

impl Shown {
    /// Prints a message. It is not flushed.
    pub(super) fn print(self, delivery: &Delivery, out: &mut impl Write) -> anyhow::Result<()> {
        let written =
            if self.json { self.print_json(delivery, out) } else { self.print_plain(delivery, out) };
        written.map_err(output_error)
    }

    fn print_plain(self, delivery: &Delivery, out: &mut impl Write) -> io::Result<()> {
        if self.topics {
            write!(out, "{} ", delivery.message.topic())?;
        }
        out.write_all(&delivery.message.payload())?;
        out.write_all(b"\n")
    }

    fn print_json(self, delivery: &Delivery, out: &mut impl Write) -> io::Result<()> {
        let Delivery { stamp, message, recovered, late, retained, .. } = delivery;
        let mut properties = serde_json::Map::new();
        message.each_property(&mut |name, value| {
            properties.insert(name.to_owned(), json_of(value));
        });
        let payload = message.payload();
        let mut line = json!({
            "topic": message.topic(),
            "payload": String::from_utf8_lossy(&payload),
            "sequence": stamp.sequence,
            "broker": format!("{:016x}", stamp.origin.broker.0),
            "published_ms": stamp.published.0 >> 16,
            "recovered": recovered, "late": late, "retained": retained,
        });
        if !properties.is_empty() {
            line["properties"] = properties.into();
        }
        if let Some(key) = message.key() {
            line["key"] = String::from_utf8_lossy(&key).into();
        }
        if str::from_utf8(&payload).is_err() {
            // A text cannot hold it, so it is there whole, too.
            line["payload_hex"] = payload.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
        }
        writeln!(out, "{line}")
    }
}

fn json_of(value: Value<'_>) -> serde_json::Value {
    match value {
        Value::Boolean(value) => value.into(),
        Value::Integer(value) => value.into(),
        Value::Float(value) => value.into(),
        Value::Text(text) => text.into(),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    }
}

/// Tells what is no message.
pub(super) fn tell(event: &Event) {
    match event {
        Event::Attached(name) => note(format_args!("attached at broker {name}")),
        Event::Unconfirmed(brokers) => {
            let brokers: Vec<_> = brokers.iter().map(|broker| broker_text(*broker)).collect();
            note(format_args!(
                "not in force yet at {}: messages published there before it is linked again may not arrive",
                brokers.join(", ")
            ));
        }
        Event::Detached(why) => note(format_args!("detached: {why}; looking for a broker")),
        Event::Outstanding(outstanding) => {
            let missing = match outstanding.missing {
                0 => String::new(),
                missing => format!(", and at most {missing} more that this broker does not have yet"),
            };
            note(format_args!(
                "{} messages to recover, {} are gone{missing}",
                outstanding.outstanding, outstanding.gone
            ));
        }
        Event::Recovered(recovered) => note(format_args!(
            "recovered {}; {} are gone, {} were superseded",
            recovered.recovered, recovered.gone, recovered.superseded
        )),
        Event::Lost { fate, count } => match fate {
            Fate::Gone => {
                note(format_args!("{count} messages were overwritten before they could be delivered"))
            }
            Fate::Superseded => {}
            Fate::Unknown => {
                note(format_args!("{count} messages exist, but did not reach this broker in time"))
            }
        },
        Event::UnknownOrigin(origin) => note(format_args!(
            "the state knows an earlier run of broker {:016x}: what that run published since is not known here",
            origin.broker.0
        )),
        Event::Message(_) | Event::Refused(_) | Event::Failed(_) => {}
        _ => {}
    }
}
