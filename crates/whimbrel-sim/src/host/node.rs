//! How the world drives a host.

use bytes::{Bytes, BytesMut};
use whimbrel_proto::{Datagram, Routed, Time};

use super::machine::Host;
use super::peer::Peer;
use crate::world::{Arrival, Departure, Node, Outbox};

impl Node for Host {
    fn handle_datagram(&mut self, now: Time, datagram: Arrival, out: &mut Outbox) {
        let Arrival { from, to, ecn, bytes } = datagram;
        let datagram = Datagram { from, to: Some(to), ecn, bytes: BytesMut::from(Bytes::from(bytes)) };
        let mut reply = Vec::new();
        match self.endpoint.handle_datagram(now, datagram, &mut reply) {
            Routed::Nothing | Routed::Agreeing(_) => {}
            Routed::Reply => out.send(Departure { source: Some(to), to: from, ecn: None, bytes: reply }),
            Routed::Connection(handle, datagram) => {
                if let Some(peer) = self.peer(handle) {
                    peer.connection.handle_datagram(now, datagram);
                }
            }
            Routed::RepeatedPing(handle, ping) => {
                if let Some(peer) = self.peer(handle) {
                    peer.connection.handle_repeated_ping(&ping);
                }
            }
            Routed::SecondPing(handle, ping) => {
                if let Some(peer) = self.peer(handle) {
                    peer.connection.handle_second_ping(&ping);
                }
            }
            Routed::Resuming(handle, resuming) => {
                if let Some(peer) = self.peer(handle) {
                    peer.connection.handle_resume(now, *resuming);
                }
            }
            Routed::Reset(handle, token) => {
                if let Some(peer) = self.peer(handle) {
                    peer.connection.handle_reset(now, &token);
                }
            }
            Routed::Accepted(handle, connection) => {
                self.keep(handle, *connection);
                self.accepted.push(handle);
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.connections.values().filter_map(Peer::timer).min()
    }

    fn handle_timeout(&mut self, now: Time) {
        for peer in self.connections.values_mut() {
            peer.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Outbox) {
        let Self { endpoint, connections, buffer, .. } = self;
        for (handle, peer) in connections {
            peer.drive(now, *handle, endpoint, buffer, out);
        }
    }
}
