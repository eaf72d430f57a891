//! The state of the network towards a peer.

use whimbrel::{Mocket, PathState, PathStats};
use whimbrel_net::host_addresses;

use crate::policy::Network;

/// Returns the state of the network that a session uses.
pub(super) fn network(mocket: &Mocket) -> Network {
    let paths = mocket.paths();
    let works = |path: &&PathStats| matches!(path.state, PathState::Active | PathState::Standby);
    let primary = paths.iter().filter(works).find(|path| path.primary);
    let rates = paths.iter().filter(works).filter(|path| path.state == PathState::Active);
    let rate: u64 = rates.map(|path| path.congestion.bandwidth).sum();
    let device = primary.and_then(|path| path.local).and_then(|ip| {
        let addresses = host_addresses().ok()?;
        addresses.into_iter().find(|address| address.ip == ip).map(|address| address.device)
    });
    Network {
        loss: primary.map(|path| path.loss),
        rate: (rate > 0).then_some(rate as f64 * 8.0),
        rtt: primary.map(|path| path.rtt),
        paths: paths.iter().filter(works).count(),
        device,
    }
}
