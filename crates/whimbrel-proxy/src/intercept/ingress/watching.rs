//! Watching the network, for conditions of rules and for standbys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::Ingress;
use crate::news::News;

/// How often the network is looked at for the conditions of rules.
const SAMPLE: Duration = Duration::from_secs(1);

impl Ingress {
    /// Looks at the network for the conditions of rules and for standbys, for ever.
    pub(crate) async fn watch_network(self, tell: impl Fn(News)) {
        let mut ticks = tokio::time::interval(SAMPLE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut replaced: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
        loop {
            ticks.tick().await;
            let peers = self.0.roster.now();
            for name in self.0.ruling.peers() {
                let Some(peer) = peers.named(&name) else { continue };
                let network = peer.network();
                for (condition, holds) in self.0.ruling.sample(&name, &network, SAMPLE) {
                    let fields = serde_json::json!({ "condition": condition.to_string(), "holds": holds });
                    peer.context().note("condition changed", fields);
                    tell(News::Condition(Arc::clone(&name), condition, holds));
                }
            }
            replaced.retain(|name, _| peers.named(name).is_some());
            for (_, peer) in peers.all() {
                let name = &peer.context().peer;
                let now = peers.standby(peer).map(|standby| Arc::clone(&standby.context().peer));
                let before = match &now {
                    Some(standby) => replaced.insert(Arc::clone(name), Arc::clone(standby)),
                    None => replaced.remove(name),
                };
                if let Some(standby) = now.as_ref().or(before.as_ref()).filter(|_| now != before) {
                    tell(News::Standby(Arc::clone(name), Arc::clone(standby), now.is_some()));
                }
            }
        }
    }
}
