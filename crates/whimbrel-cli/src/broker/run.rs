//! `whimbrel broker run`: the broker itself.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use clap::Args;
use whimbrel::{Config, PeerText, PublicKey};
use whimbrel_broker::backbone::{self, Backbone, Mesh, Nats, NatsPlan};
use whimbrel_broker::gateway::mqtt::{Bridges, Gateway};
use whimbrel_broker::hub::Hub;
use whimbrel_broker::matching::Limits;
use whimbrel_broker::native::Access;
use whimbrel_broker::report::Reporter;
use whimbrel_broker::serve;
use whimbrel_broker::settings::{Settings, SettingsError};
use whimbrel_pubsub::client::allow_large_packets;
use whimbrel_pubsub::frame::PROTOCOL;
use whimbrel_service::key::{default_key_file, own_or_new};
use whimbrel_service::{Command, ListenOptions, Listening, Service};

use super::mqtt::{self, Mqtt};
use super::report;
use super::sources::Sources;
use super::ticking::tick;
use crate::monitor;
use crate::output::{note, print_line};
use crate::process::{Misused, RuntimeOptions, STOP_PATIENCE};

/// Runs a broker until Ctrl-C or SIGTERM.
///
/// The first line of output is `listening whimbrel://KEY@HOST:PORT`. Give that URL to --broker of `whimbrel pub` and `whimbrel sub`.
/// Both signals are its regular end, with exit code 0.
#[derive(Args, Clone, Debug)]
pub(super) struct RunCommand {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    runtime: RuntimeOptions,
}

/// The most bytes that may wait for a client in the transport's queue. What does not fit there stays in the buffer,
/// where newer values replace older ones.
const QUEUE: u64 = 512 << 10;

impl RunCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        self.runtime.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<()> {
        let settings = self.sources.read()?;
        let rules = settings.rules()?;
        let prepared = self.sources.mqtt(&settings)?;
        let Listening { endpoint, url } = self.listen(&settings).await?;
        let own = endpoint.public_key();
        settings.check_owner(&own).map_err(|error| Misused(error.to_string()))?;
        let hub = Hub::with_store(settings.name(&own), rules, Limits::default(), settings.store.place(&own));
        // Nothing is served before what was promised is known.
        let opening = Arc::clone(&hub);
        let opened = tokio::task::spawn_blocking(move || opening.open_store()).await?;
        opened.map_err(anyhow::Error::msg)?.into_iter().for_each(|notice| note(format_args!("{notice}")));
        let (clients, others) = settings.permissions()?;
        let access = Arc::new(Access::new(clients, others));
        let opened: Arc<OnceLock<Arc<Gateway>>> = Arc::default();
        let gateway = Arc::clone(&opened);
        let reporter = Reporter::new(Arc::clone(&hub));
        let (shown, kept) = (reporter.clone(), Arc::clone(&hub));
        let more = move || {
            let mut told = serde_json::to_value(shown.report()).unwrap_or_default();
            told["durable"] = report::durable(&kept);
            told["logs"] = report::logs(&kept);
            if let Some(nats) = shown.nats() {
                told["nats"] = serde_json::to_value(nats).unwrap_or_default();
            }
            told["bridges"] = serde_json::to_value(shown.bridges()).unwrap_or_default();
            told["mqtt"] = gateway.get().map(|gateway| mqtt::report(gateway.connections())).into();
            told
        };
        let file = self.sources.config.as_deref();
        let mut service = monitor::start("broker", &settings.service, file, &endpoint, more).await?;
        let nats = match settings.nats()? {
            Some(plan) => Some(join(&hub, own, &plan).await?),
            None => None,
        };
        let backbone = match &nats {
            Some(nats) => Backbone::Nats(Arc::clone(nats)),
            None => Backbone::Mesh(Mesh::start(Arc::clone(&hub), &endpoint, &settings.peers()?)),
        };
        reporter.join(backbone.clone());
        reporter.register(service.metrics());
        let watched = reporter.clone();
        service.set_health(move || watched.health());
        let serving = tokio::spawn(serve(Arc::clone(&hub), backbone, endpoint.clone(), Arc::clone(&access)));
        let ticking = tokio::spawn(tick(Arc::clone(&hub), reporter.clone(), service.activity()));
        let keeping = tokio::spawn(Arc::clone(&hub).look_after_store(|told| note(format_args!("{told}"))));
        let served = Mqtt::start(&hub, prepared).await?;
        let plans = settings.bridges()?;
        let mut bridges = Bridges::start(&hub, plans, |what| note(format_args!("{}", PeerText::show(what))))?;
        reporter.bridge(bridges.reports());
        if let Some(mqtt) = &served {
            drop(opened.set(mqtt.gateway()));
        }
        print_line(format_args!("listening {url}"))?;
        for url in served.iter().flat_map(Mqtt::urls) {
            print_line(format_args!("listening {url}"))?;
        }
        self.until_stopped(&mut service, &endpoint, &access, served.as_ref()).await;
        if let Some(mqtt) = served {
            mqtt.stop().await;
        }
        bridges.stop().await;
        if let Some(nats) = nats {
            nats.stop().await;
        }
        service.finish(0, "the broker was stopped", STOP_PATIENCE).await?;
        serving.abort();
        ticking.abort();
        keeping.abort();
        tokio::task::spawn_blocking(move || hub.close_store()).await?;
        Ok(())
    }

    async fn until_stopped(
        &self,
        service: &mut Service,
        endpoint: &whimbrel::Endpoint,
        access: &Access,
        mqtt: Option<&Mqtt>,
    ) {
        loop {
            match service.next().await {
                Command::Stop(_) => return,
                Command::Reload(asked) => {
                    service.reloading();
                    let reloaded = self.reload(endpoint, access, mqtt);
                    service.reloaded();
                    monitor::answer(service, asked, reloaded);
                }
                _ => {}
            }
        }
    }

    async fn listen(&self, settings: &Settings) -> anyhow::Result<Listening> {
        let listen = settings.listen.clone();
        let key = self.sources.key.clone().or(listen.key);
        let (_, is_new) = own_or_new(key.as_deref())?;
        let path = key.map_or_else(default_key_file, Ok)?;
        if is_new {
            note(format_args!("made the key {}", path.display()));
        }
        let mut transport = settings.transport.clone();
        allow_large_packets(&mut transport);
        // Nothing is kept here for a client that is away, and a broker that is gone is dialled anew.
        transport.reattach = None;
        transport.session.send_queue_bytes = transport.session.send_queue_bytes.min(QUEUE);
        let mut admitted = listen.config;
        admitted.protocols = vec![PROTOCOL.into()];
        if settings.nats()?.is_none() {
            admitted.protocols.push(backbone::PROTOCOL.into());
        }
        admitted.allow = allowed(settings)?;
        let paths = self.sources.transport.paths.paths()?;
        let config = Config::default().protocol(backbone::PROTOCOL.into());
        let config = config.transport(transport).paths(paths).listen(Some(admitted));
        let mut options = ListenOptions::new(config).key(path);
        (options.address, options.psk) = (listen.address, listen.psk);
        Ok(options.listen(note).await?)
    }

    /// Reads the file again and applies what clients may do.
    fn reload(
        &self,
        endpoint: &whimbrel::Endpoint,
        access: &Access,
        mqtt: Option<&Mqtt>,
    ) -> Result<String, String> {
        if self.sources.config.is_none() {
            return Err(
                "this command has no configuration to read again: start it with --config FILE".to_owned()
            );
        }
        let settings = self.sources.read().map_err(|misused| misused.0)?;
        let (clients, others) = settings.permissions().map_err(|error| error.to_string())?;
        let permitted = self.sources.mqtt(&settings).map_err(|misused| misused.0)?;
        let ended = endpoint.set_allow(allowed(&settings).map_err(|error| error.to_string())?);
        let number = clients.len();
        access.replace(clients, others);
        if let (Some(mqtt), Some(prepared)) = (mqtt, permitted) {
            mqtt.replace(prepared);
        }
        Ok(format!(
            "{} listed now; {} ended. Channels and addresses change at the next start",
            crate::shown::plural(number as u64, "client"),
            crate::shown::plural(ended as u64, "session")
        ))
    }
}

/// Joins a cluster whose brokers speak over NATS.
async fn join(hub: &Arc<Hub>, own: PublicKey, plan: &NatsPlan) -> anyhow::Result<Arc<Nats>> {
    let tell = |what: &str| note(format_args!("{}", PeerText::show(what)));
    Ok(Nats::start(Arc::clone(hub), own, plan, tell).await?)
}

/// The keys that may connect. `None`: any.
fn allowed(settings: &Settings) -> Result<Option<BTreeSet<PublicKey>>, SettingsError> {
    if settings.other_clients.is_some() {
        return Ok(None);
    }
    let clients = settings.clients.iter().map(|client| client.key);
    Ok(Some(clients.chain(settings.peers()?.iter().map(|peer| peer.key)).collect()))
}
