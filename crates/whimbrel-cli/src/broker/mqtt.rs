//! The broker's side for clients of MQTT.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use whimbrel_broker::gateway::mqtt::{self, Admission, Rules};
use whimbrel_broker::hub::Hub;
use whimbrel_broker::settings::Settings;

/// MQTT as it is served.
pub(super) struct Mqtt {
    address: SocketAddr,
    admission: Arc<Admission>,
    stop: watch::Sender<()>,
    serving: JoinHandle<()>,
}

impl Mqtt {
    /// Begins to serve clients of MQTT, if the settings say so.
    pub(super) async fn start(
        hub: &Arc<Hub>,
        permitted: Option<(SocketAddr, Rules)>,
        settings: &Settings,
    ) -> anyhow::Result<Option<Self>> {
        let Some((address, rules)) = permitted else { return Ok(None) };
        let limits = settings.mqtt.limits()?;
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen for MQTT on {address}"))?;
        let address = listener.local_addr()?;
        let admission = Arc::new(Admission::new(rules));
        let (stop, stopping) = watch::channel(());
        let served = mqtt::serve(Arc::clone(hub), listener, Arc::clone(&admission), limits, stopping);
        Ok(Some(Self { address, admission, stop, serving: tokio::spawn(served) }))
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the rules for who may connect and do what, from now on.
    pub(super) fn replace(&self, rules: Rules) {
        self.admission.replace(rules);
    }

    /// Tells the clients that the broker stops, and waits until they know.
    pub(super) async fn stop(self) {
        drop(self.stop);
        drop(self.serving.await);
    }
}
