//! `whimbrel proxy run`: the proxy itself.

use std::sync::{Arc, OnceLock};

use clap::Args;
use whimbrel::{Config, Endpoint};
use whimbrel_proxy::protocol::PROTOCOL;
use whimbrel_proxy::{Proxy, ProxyStatus, Settings};
use whimbrel_service::key::{default_key_file, own_or_new, read_psk};
use whimbrel_service::{Command, ListenOptions, Listening, bind_both_families};

use super::sources::Sources;
use crate::monitor;
use crate::output::{note, print_line};
use crate::process::{RuntimeOptions, STOP_PATIENCE};

/// The most sessions of one peer. It needs one; more are of a peer that was restarted.
const MOST_SESSIONS: usize = 16;

/// Runs a proxy until Ctrl-C or SIGTERM.
///
/// With --listen, the first line of output is `listening whimbrel://KEY@HOST:PORT`; give that URL to --peer at the
/// other end. Both signals are its regular end, with exit code 0; a second one ends it at once.
#[derive(Args, Clone, Debug)]
pub(super) struct RunCommand {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    runtime: RuntimeOptions,
}

impl RunCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        self.runtime.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<()> {
        let settings = self.sources.read()?;
        let (endpoint, listening) = self.bind(&settings).await?;
        let status: Arc<OnceLock<ProxyStatus>> = Arc::default();
        let shown = Arc::clone(&status);
        let more = move || shown.get().map_or(serde_json::Value::Null, ProxyStatus::shown);
        let has_file = self.sources.config.is_some();
        let mut service = monitor::start("proxy", &settings.service, has_file, &endpoint, more).await?;
        let mut proxy = Proxy::start(&settings, &endpoint, service.activity(), note).await?;
        proxy.register(service.metrics());
        drop(status.set(proxy.status()));
        if let Some(url) = listening {
            print_line(format_args!("listening {url}"))?;
        }
        loop {
            match service.next().await {
                Command::Stop(_) => break,
                Command::Reload(asked) => {
                    service.reloading();
                    let reloaded = self.reload(&mut proxy);
                    service.reloaded();
                    monitor::answer(&service, asked, reloaded);
                }
                _ => {}
            }
        }
        tokio::select! {
            _ = proxy.drain(STOP_PATIENCE) => {}
            // A second signal: at once.
            _ = service.next() => {}
        }
        service.finish(0, "the proxy was stopped", STOP_PATIENCE).await?;
        Ok(())
    }

    /// Opens the socket. Returns the URL to give to peers, if the proxy listens for them.
    async fn bind(&self, settings: &Settings) -> anyhow::Result<(Endpoint, Option<String>)> {
        let listen = settings.listen.clone().unwrap_or_default();
        let key = self.sources.key.clone().or(listen.key);
        let (identity, is_new) = own_or_new(key.as_deref())?;
        let path = key.map_or_else(default_key_file, Ok)?;
        if is_new {
            note(format_args!("made the key {} with the public key {}", path.display(), identity.public()));
        }
        let paths = self.sources.transport.paths.paths()?;
        let config =
            Config::default().transport(settings.transport.clone()).paths(paths).protocol(PROTOCOL.into());
        if settings.listen.is_none() {
            let config = config.identity(identity).psk(read_psk(listen.psk.as_deref())?);
            return Ok((bind_both_families(config, 0).await?, None));
        }
        let mut admitted = listen.config;
        admitted.allow = Some(settings.keys());
        admitted.protocols = vec![PROTOCOL.into()];
        admitted.max_per_key = admitted.max_per_key.min(MOST_SESSIONS);
        let mut options = ListenOptions::new(config.listen(Some(admitted))).key(path);
        (options.address, options.psk) = (listen.address, listen.psk);
        let Listening { endpoint, url } = options.listen(note).await?;
        Ok((endpoint, Some(url.to_string())))
    }

    fn reload(&self, proxy: &mut Proxy) -> Result<String, String> {
        if self.sources.config.is_none() {
            return Err(
                "this command has no configuration to read again: start it with --config FILE".to_owned()
            );
        }
        let settings = self.sources.read().map_err(|misused| misused.0)?;
        Ok(proxy.reload(&settings))
    }
}
