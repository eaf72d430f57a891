//! The broker's side for clients of MQTT.

use std::sync::Arc;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use whimbrel::PeerText;
use whimbrel_broker::gateway::mqtt::{Admission, Connections, Door, Gateway, Tls};
use whimbrel_broker::hub::Hub;
use whimbrel_broker::settings::MqttPlan;

use crate::output::note;

/// MQTT as it is served.
pub(super) struct Mqtt {
    urls: Vec<String>,
    admission: Arc<Admission>,
    tls: Option<Arc<Tls>>,
    gateway: Arc<Gateway>,
    stop: watch::Sender<()>,
    serving: JoinHandle<()>,
}

/// The settings of MQTT and the certificates that they name, read before anything is started.
pub(super) struct Prepared {
    pub(super) plan: MqttPlan,
    pub(super) tls: Option<Tls>,
}

impl Mqtt {
    /// Begins to serve clients of MQTT, if the settings say so.
    pub(super) async fn start(hub: &Arc<Hub>, prepared: Option<Prepared>) -> anyhow::Result<Option<Self>> {
        let Some(Prepared { plan, tls }) = prepared else { return Ok(None) };
        let (tls, websocket) = (tls.map(Arc::new), Arc::new(plan.websocket));
        let mut doors = Vec::new();
        for door in plan.doors {
            let listener = TcpListener::bind(door.address).await;
            let listener = listener.with_context(|| format!("cannot listen for MQTT on {}", door.address))?;
            let websocket = door.has_websocket.then(|| Arc::clone(&websocket));
            doors.push(Door::new(listener, tls.clone().filter(|_| door.has_tls), websocket));
        }
        let urls = doors.iter().map(ToString::to_string).collect();
        let admission = Arc::new(Admission::new(plan.rules));
        let gateway = Gateway::new(Arc::clone(hub), Arc::clone(&admission), plan.limits, |what| {
            note(format_args!("{}", PeerText::show(what)));
        });
        gateway.open().await.map_err(anyhow::Error::msg)?;
        let (stop, stopping) = watch::channel(());
        let serving = tokio::spawn(Arc::clone(&gateway).serve(doors, stopping));
        Ok(Some(Self { urls, admission, tls, gateway, stop, serving }))
    }

    /// Where it listens.
    pub(super) fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The connections as they are counted.
    pub(super) fn gateway(&self) -> Arc<Gateway> {
        Arc::clone(&self.gateway)
    }

    /// Replaces the rules for who may connect and do what, and the certificates, from now on.
    pub(super) fn replace(&self, prepared: Prepared) {
        if let (Some(tls), Some(new)) = (&self.tls, &prepared.tls) {
            tls.replace(new);
        }
        self.admission.replace(prepared.plan.rules);
    }

    /// Tells the clients that the broker stops, and waits until they know.
    pub(super) async fn stop(self) {
        drop(self.stop);
        drop(self.serving.await);
    }
}

/// A report on the connections of MQTT.
pub(super) fn report(told: Connections) -> serde_json::Value {
    let Connections { connections, pending, turned_away, wills_waiting, wills_refused } = told;
    serde_json::json!({
        "connections": connections,
        "pending": pending,
        "turned_away": turned_away,
        "wills_waiting": wills_waiting,
        "wills_refused": wills_refused,
    })
}
