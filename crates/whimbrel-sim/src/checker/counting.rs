//! Counting what happened in a run.

use whimbrel_proto::Event;

use super::run::Run;
use crate::pair::End;

impl Run {
    /// Takes over the counts at the end of a run.
    pub(super) fn count(&mut self) {
        let (sent, delivered) = self.model.counts();
        self.coverage.sent = sent;
        self.coverage.delivered = delivered;
        self.coverage.outcomes = self.model.outcomes().clone();
        (self.coverage.packets, self.coverage.lost, self.coverage.key_updates) = (0, 0, 0);
        for end in End::BOTH {
            if self.pair.try_connection(end).is_none() {
                continue;
            }
            let stats = self.pair.stats(end);
            self.coverage.packets += stats.paths[0].sent_packets;
            self.coverage.lost += stats.paths[0].lost_packets;
            self.coverage.key_updates += stats.key_updates;
        }
        let ups = self.pair.events(End::Server);
        self.coverage.paths = ups.iter().filter(|event| matches!(event, Event::PathUp(_))).count() as u64;
        let count =
            |events: &[Event], is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count() as u64;
        let moved = |event: &Event| matches!(event, Event::PeerAddressChanged { .. });
        let changed = |event: &Event| matches!(event, Event::PrimaryChanged(_));
        let [client, server] = End::BOTH.map(|end| self.pair.events(end));
        self.coverage.moves = count(&server, moved);
        self.coverage.server_moves = count(&client, moved);
        self.coverage.changeovers = count(&client, changed) + count(&server, changed);
        if self.coverage.paths > 0 {
            let config = &self.config;
            let drawn = [
                format!("{:?}", config.scheduler),
                format!("{:?}", config.primary_rule),
                format!("{:?}", config.cost_policy),
            ];
            self.coverage.drawn = drawn.map(|drawn| (drawn, 1)).into();
        }
    }
}
