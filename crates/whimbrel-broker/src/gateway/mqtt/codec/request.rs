//! The packets that a bridge sends to a broker of others.

use bytes::{BufMut, BytesMut};

use super::properties::PropertyList;
use super::server::CLUSTER;
use super::terms::{Qos, Version};
use super::write::Out;
use super::write::put_properties;

/// The content of a CONNECT packet.
#[derive(Clone, Debug)]
pub(in super::super) struct Introducing<'a> {
    pub(in super::super) client: &'a str,
    /// Whether the broker is to keep nothing for it.
    pub(in super::super) is_clean: bool,
    /// Seconds; 0 is none.
    pub(in super::super) keep_alive: u16,
    /// Seconds for which MQTT 5 keeps the session.
    pub(in super::super) session_expiry: u32,
    /// The most messages that it wants to have unacknowledged.
    pub(in super::super) receive_maximum: u16,
    /// The longest packet that it takes.
    pub(in super::super) maximum_packet: u32,
    /// Its cluster. Whom this concerns answers with its own.
    pub(in super::super) cluster: &'a str,
    pub(in super::super) user: Option<&'a str>,
    pub(in super::super) password: Option<&'a str>,
}

impl Out {
    pub(in super::super) fn connect(&mut self, introducing: &Introducing<'_>) {
        let Introducing { client, is_clean, keep_alive, user, password, .. } = introducing;
        let is_v5 = self.version() == Version::V5;
        let mut body = BytesMut::new();
        put_text(&mut body, "MQTT");
        body.put_u8(if is_v5 { 5 } else { 4 });
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        body.put_u8(flag(*is_clean, 2) | flag(user.is_some(), 0x80) | flag(password.is_some(), 0x40));
        body.put_u16(*keep_alive);
        if is_v5 {
            let mut properties = PropertyList::default();
            if !is_clean {
                properties.u32(0x11, introducing.session_expiry);
            }
            properties.u16(0x21, introducing.receive_maximum);
            properties.u32(0x27, introducing.maximum_packet);
            properties.user(CLUSTER, introducing.cluster);
            put_properties(&mut body, &properties);
        }
        put_text(&mut body, client);
        [user, password].into_iter().flatten().for_each(|text| put_text(&mut body, text));
        self.packet(0x10, &body);
    }

    /// Asks for what these filters match. Its own messages are not wanted, and last values only once.
    pub(in super::super) fn subscribe(&mut self, id: u16, filters: &[(&str, Qos)]) {
        let is_v5 = self.version() == Version::V5;
        let mut body = BytesMut::new();
        body.put_u16(id);
        if is_v5 {
            put_properties(&mut body, &PropertyList::default());
        }
        for (filter, qos) in filters {
            put_text(&mut body, filter);
            // No local, retain as published, and last values only for a new subscription.
            let options = if is_v5 { 0x4 | 0x8 | 0x10 } else { 0 };
            body.put_u8(*qos as u8 | options);
        }
        self.packet(0x82, &body);
    }

    /// Asks whether the broker is there.
    pub(in super::super) fn pingreq(&mut self) {
        self.packet(0xc0, &[]);
    }

    /// Leaves. The session is kept.
    pub(in super::super) fn leave(&mut self) {
        self.packet(0xe0, &[]);
    }
}

/// Puts a text. What does not fit is left out.
fn put_text(out: &mut BytesMut, text: &str) {
    let text = &text[..text.floor_char_boundary(u16::MAX.into())];
    out.put_u16(text.len() as u16);
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::{Packet, frame};
    use super::*;

    #[test]
    fn what_is_sent_is_what_our_own_broker_reads() {
        for version in [Version::V3, Version::V5] {
            let mut out = Out::new(version);
            out.connect(&Introducing {
                client: "bridge",
                is_clean: false,
                keep_alive: 15,
                session_expiry: 60,
                receive_maximum: 64,
                maximum_packet: 1 << 20,
                cluster: "c",
                user: Some("u"),
                password: Some("p"),
            });
            let bytes = out.bytes().clone();
            let place = frame(&bytes, usize::MAX).unwrap().unwrap();
            let Packet::Connect(connect) =
                Packet::read(bytes[0], &bytes[place.body..place.end], None).unwrap()
            else {
                panic!()
            };
            assert_eq!((connect.version, connect.client, connect.keep_alive), (version, "bridge", 15));
            assert_eq!(
                (connect.user, connect.password, connect.is_clean),
                (Some("u"), Some(&b"p"[..]), false)
            );
            assert_eq!(connect.properties.session_expiry, (version == Version::V5).then_some(60));
            assert_eq!(connect.properties.user(CLUSTER), (version == Version::V5).then_some("c"));
            out.bytes().clear();
            out.subscribe(9, &[("a/#", Qos::AtLeastOnce)]);
            let bytes = out.bytes().clone();
            let place = frame(&bytes, usize::MAX).unwrap().unwrap();
            let read = Packet::read(bytes[0], &bytes[place.body..place.end], Some(version)).unwrap();
            let Packet::Subscribe { id: 9, filters, .. } = read else { panic!() };
            assert_eq!((filters[0].filter, filters[0].no_local), ("a/#", version == Version::V5));
        }
    }
}
