//! Messages of MQTT as messages of the broker, and back.

use std::collections::BTreeSet;
use std::time::Duration;

use whimbrel_pubsub::message::{Draft, Index, LONGEST_LIFETIME, Message, MessageError, Publication, Stamp};
use whimbrel_pubsub::property::{self, Lookup, Value, check_name};

use super::codec::{Fault, Properties, PropertyList, Publish, Qos, Reason, WillPart};

/// The property that carries what MQTT says of a message and no selector can read: flags, and maybe the properties as MQTT writes them.
const CARRIED: &str = "$mqtt";
/// The message was published at QoS 0.
const AT_MOST_ONCE: u8 = 1;
/// Properties follow, in the place of those that selectors read.
const WITH_PROPERTIES: u8 = 2;
/// The message was published at QoS 2.
const EXACTLY_ONCE: u8 = 4;
/// The message was published at QoS 1, though it carries the name of its publisher.
const AT_LEAST_ONCE: u8 = 8;
/// User properties that begin so are for the broker.
pub(super) const OWN: &str = "whimbrel-";
/// The key of a message: a newer one may replace it.
const KEY: &str = "whimbrel-key";
/// The importance of a message, 1 to 10.
const INDEX: &str = "whimbrel-index";

/// A message as a client sends it.
pub(super) struct Content<'a> {
    pub(super) topic: &'a str,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    pub(super) is_repeated: bool,
    pub(super) properties: &'a Properties<'a>,
    pub(super) payload: &'a [u8],
    pub(super) publication: Option<Publication>,
}

impl<'a> Content<'a> {
    pub(super) fn of(publish: &'a Publish<'a>, topic: &'a str, publication: Option<Publication>) -> Self {
        let Publish { is_repeated, qos, retain, properties, payload, .. } = publish;
        Self {
            topic,
            qos: *qos,
            retain: *retain,
            is_repeated: *is_repeated,
            properties,
            payload,
            publication,
        }
    }

    pub(super) fn of_will(will: &'a WillPart<'a>) -> Self {
        let WillPart { qos, retain, properties, topic, payload } = will;
        Self { topic, qos: *qos, retain: *retain, is_repeated: false, properties, payload, publication: None }
    }

    /// The message of the broker.
    pub(super) fn message(&self) -> Result<Message, Fault> {
        let said = self.properties;
        if said.response_topic.is_some_and(|topic| topic.contains(['+', '#'])) {
            return Err(Fault::protocol("the response topic has a wildcard"));
        }
        let carried = self.carried();
        let mut names = BTreeSet::new();
        let selectable = said.user.iter().filter(|(name, _)| is_selectable(name) && names.insert(*name));
        let pairs: Vec<_> = selectable.map(|(name, value)| (*name, Value::Text(value))).collect();
        let carrier = (!carried.is_empty()).then_some((CARRIED, Value::Bytes(&carried)));
        let properties = property::Properties::new(pairs.into_iter().chain(carrier))
            .map_err(|error| Fault::new(Reason::IMPLEMENTATION, error.to_string()))?;
        let lifetime = said.message_expiry.map(|seconds| {
            Duration::from_secs(seconds.into()).clamp(Duration::from_millis(1), LONGEST_LIFETIME)
        });
        let draft = Draft {
            topic: self.topic,
            properties: properties.as_bytes(),
            key: said.user(KEY).map(str::as_bytes),
            index: said.user(INDEX).map_or(Ok(Index::default()), index_of)?,
            lifetime,
            retain: self.retain,
            possibly_repeated: self.is_repeated,
            publication: self.publication,
            payload: self.payload,
        };
        draft.finish().map_err(|error| {
            let reason = match error {
                MessageError::Topic(_) => Reason::TOPIC_INVALID,
                MessageError::TooLong(_) => Reason::TOO_LARGE,
                _ => Reason::IMPLEMENTATION,
            };
            Fault::new(reason, error.to_string())
        })
    }

    /// Returns the bytes that are carried beside the properties that selectors read.
    fn carried(&self) -> Vec<u8> {
        let said = self.properties;
        let user: Vec<_> = said.user.iter().filter(|(name, _)| !name.starts_with(OWN)).copied().collect();
        let is_sorted = user.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let others = [said.content_type.is_some(), said.response_topic.is_some(), said.correlation.is_some()];
        let is_plain = is_sorted
            && user.iter().all(|(name, _)| is_selectable(name))
            && said.payload_format.is_none()
            && !others.contains(&true);
        let qos = match self.qos {
            Qos::AtMostOnce => AT_MOST_ONCE,
            // Most messages are at QoS 1, and nothing is carried for them.
            Qos::AtLeastOnce if self.publication.is_none() => 0,
            Qos::AtLeastOnce => AT_LEAST_ONCE,
            Qos::ExactlyOnce => EXACTLY_ONCE,
        };
        if is_plain {
            return (qos != 0).then_some(qos).into_iter().collect();
        }
        let list = Properties { user, ..said.clone() }.to_list();
        [&[qos | WITH_PROPERTIES], list.as_bytes()].concat()
    }
}

fn is_selectable(name: &str) -> bool {
    name != CARRIED && !name.starts_with(OWN) && check_name(name).is_ok()
}

fn index_of(text: &str) -> Result<Index, Fault> {
    let index = text.parse().ok().and_then(|number| Index::new(number).ok());
    index.ok_or_else(|| Fault::new(Reason::IMPLEMENTATION, "whimbrel-index is a number from 1 to 10"))
}

/// The QoS at which a message was published. A native message is published exactly once if it carries a name.
pub(super) fn qos_of(message: &Message) -> Qos {
    let flags = match message.property(CARRIED) {
        Some(Value::Bytes([flags, ..])) => *flags,
        _ => 0,
    };
    let is = |flag| flags & flag != 0;
    if is(AT_MOST_ONCE) {
        Qos::AtMostOnce
    } else if is(EXACTLY_ONCE) || !is(AT_LEAST_ONCE) && message.publication().is_some() {
        Qos::ExactlyOnce
    } else {
        Qos::AtLeastOnce
    }
}

/// The properties with which a message is sent to a client of MQTT 5.
pub(super) fn properties_of(message: &Message) -> PropertyList {
    let mut list = PropertyList::default();
    // Native publishers may write anything there.
    if let Some(Value::Bytes([flags, written @ ..])) = message.property(CARRIED)
        && flags & WITH_PROPERTIES != 0
        && is_harmless(written)
    {
        list.written(written);
        return list;
    }
    message.each_property(&mut |name, value| match value {
        Value::Text(text) => list.user(name, text),
        Value::Integer(number) => list.user(name, &number.to_string()),
        Value::Float(number) => list.user(name, &number.to_string()),
        Value::Boolean(is) => list.user(name, if is { "true" } else { "false" }),
        Value::Bytes(_) => {}
    });
    list
}

/// Whether these are properties, and none speaks for the broker.
fn is_harmless(written: &[u8]) -> bool {
    let said = Properties::of_message(written);
    said.is_ok_and(|said| said.user.iter().all(|(name, _)| !name.starts_with(OWN)))
}

/// The seconds for which a message is still wanted, if it has a lifetime. What is left of a second counts as one.
pub(super) fn expiry_of(message: &Message, stamp: &Stamp, wall_ms: u64) -> Option<u32> {
    let lifetime = message.lifetime()?.as_millis();
    let age = u128::from(wall_ms.saturating_sub(stamp.published.0 >> 16));
    u32::try_from(lifetime.saturating_sub(age).div_ceil(1_000).max(1)).ok()
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::message::PublisherId;

    use super::*;

    fn content<'a>(properties: &'a Properties<'a>, qos: Qos) -> Content<'a> {
        let publication = None;
        Content { topic: "t", qos, retain: false, is_repeated: false, properties, payload: b"", publication }
    }

    fn written(said: &Properties<'_>) -> Properties<'static> {
        let message = content(said, Qos::AtLeastOnce).message().unwrap();
        let list = properties_of(&message);
        let bytes: &'static [u8] = list.as_bytes().to_vec().leak();
        Properties::of_message(bytes).unwrap()
    }

    #[test]
    fn all_properties_come_back_in_their_order() {
        let plain = Properties { user: vec![("a", "1"), ("b", "2")], ..Properties::default() };
        assert_eq!(written(&plain), plain);
        let odd = Properties {
            payload_format: Some(1),
            content_type: Some("text/plain"),
            response_topic: Some("answers"),
            correlation: Some(&[0, 255]),
            user: vec![("z", "1"), ("a", "2"), ("a", "3"), ("x-no-name", "4"), ("$mqtt", "5")],
            ..Properties::default()
        };
        assert_eq!(written(&odd), odd);
        let own = Properties { user: vec![("whimbrel-key", "k"), ("a", "1")], ..Properties::default() };
        assert_eq!(written(&own).user, [("a", "1")]);
    }

    #[test]
    fn selectors_read_user_properties_and_the_qos_is_kept() {
        let said = Properties {
            user: vec![("x-no-name", "4"), ("price", "7"), ("price", "8"), ("whimbrel-key", "cod")],
            message_expiry: Some(0),
            ..Properties::default()
        };
        let message = content(&said, Qos::AtMostOnce).message().unwrap();
        assert_eq!(message.property("price"), Some(Value::Text("7")));
        assert_eq!(message.key().as_deref(), Some(&b"cod"[..]));
        assert_eq!(message.lifetime(), Some(Duration::from_millis(1)));
        assert_eq!(qos_of(&message), Qos::AtMostOnce);
        let publication = Some(Publication { publisher: PublisherId(1), number: 1 });
        for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let plain = Properties::default();
            for said in [&said, &plain] {
                assert_eq!(qos_of(&content(said, qos).message().unwrap()), qos);
                let named = Content { publication, ..content(said, qos) };
                assert_eq!(qos_of(&named.message().unwrap()), qos);
            }
        }
        let native = |publication| Draft { topic: "t", publication, ..Draft::default() }.finish().unwrap();
        assert_eq!(qos_of(&native(publication)), Qos::ExactlyOnce);
        assert_eq!(qos_of(&native(None)), Qos::AtLeastOnce);
    }

    #[test]
    fn what_is_not_allowed_is_said() {
        let said = |user| Properties { user, ..Properties::default() };
        let fault = |said: &Properties<'_>| content(said, Qos::AtLeastOnce).message().unwrap_err();
        assert_eq!(fault(&said(vec![("whimbrel-index", "11")])).reason, Reason::IMPLEMENTATION);
        let long = "x".repeat(20_000);
        assert_eq!(fault(&said(vec![("a", &long)])).reason, Reason::IMPLEMENTATION);
        let plain = Properties::default();
        let wild = Content { topic: "a/+", ..content(&plain, Qos::AtLeastOnce) }.message().unwrap_err();
        assert_eq!(wild.reason, Reason::TOPIC_INVALID);
        let response = Properties { response_topic: Some("a/#"), ..Properties::default() };
        assert_eq!(fault(&response).reason, Reason::PROTOCOL_ERROR);
    }

    #[test]
    fn a_native_message_is_written_as_text_whatever_it_carries() {
        let mut forged = PropertyList::default();
        forged.user("whimbrel-coverage", "another state");
        let forged = [&[WITH_PROPERTIES], forged.as_bytes()].concat();
        for carried in [&[WITH_PROPERTIES, 0x26, 0xff][..], &forged] {
            let carried = (CARRIED, Value::Bytes(carried));
            let pairs = [("n", Value::Integer(-4)), ("yes", Value::Boolean(true)), carried];
            let properties = property::Properties::new(pairs).unwrap();
            let draft = Draft { topic: "t", properties: properties.as_bytes(), ..Draft::default() };
            let list = properties_of(&draft.finish().unwrap());
            let said = Properties::of_message(list.as_bytes()).unwrap();
            assert_eq!(said.user, [("n", "-4"), ("yes", "true")]);
        }
    }
}
