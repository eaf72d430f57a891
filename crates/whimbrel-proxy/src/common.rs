//! The parts that all peers of a proxy share, with which a peer is made from its settings.

use std::sync::Arc;

use whimbrel::PublicKey;
use whimbrel_service::ActivityLog;

use crate::compress::Budget;
use crate::multicast::Multicast;
use crate::peer_settings::PeerSettings;
use crate::relay::{Dictionaries, Flows, Limits, OwnPorts, Peer, SessionContext};
use crate::settings::SettingsError;
use crate::sockets::Mark;

/// The parts that all peers of a proxy share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) limits: Arc<Limits>,
    pub(crate) flows: Flows,
    pub(crate) dictionaries: Arc<Dictionaries>,
    pub(crate) compression: Budget,
    pub(crate) activity: Option<ActivityLog>,
    pub(crate) mark: Mark,
    pub(crate) multicast: Option<Arc<Multicast>>,
    pub(crate) own: Arc<OwnPorts>,
}

impl Common {
    /// Makes a peer, without a session.
    ///
    /// # Errors
    /// It has no key, or two.
    pub(crate) fn peer(&self, settings: &PeerSettings) -> Result<(PublicKey, Peer), SettingsError> {
        let key = settings.key()?;
        let context = SessionContext::new(
            &settings.shown_name(&key),
            settings.permits(),
            Arc::clone(&self.limits),
            self.flows.clone(),
            (Arc::clone(&self.dictionaries), &self.compression),
            self.activity.clone(),
        )
        .marked(self.mark)
        .with_multicast(self.multicast.clone())
        .with_own(&self.own);
        Ok((key, Peer::new(context, settings.standby.as_deref(), settings.paths.clone())))
    }
}
