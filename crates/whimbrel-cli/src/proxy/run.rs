//! `whimbrel proxy run`: the proxy itself.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Args;
use whimbrel::{Config, Endpoint, Identity};
use whimbrel_proxy::intercept::tun::{Stack, TunSettings};
use whimbrel_proxy::protocol::PROTOCOL;
use whimbrel_proxy::upgrade::Parcel;
use whimbrel_proxy::{Admission, Connector, PeerUrl, Proxy, ProxyStatus, Settings, TcpConnector};
use whimbrel_pubsub::client::{Client, ClientOptions, endpoint_config};
use whimbrel_service::key::{default_key_file, own_or_new, read_psk, release_reset_salts};
use whimbrel_service::{Command, ListenOptions, Listening, Service, bind_both_families};

use super::sources::Sources;
use super::tcp;
use super::upgrade::{self, Heir};
use crate::monitor;
use crate::output::{note, print_line};
use crate::process::{Misused, RuntimeOptions, STOP_PATIENCE, interrupted};

/// The most sessions of one peer. It needs one; more are of a peer that was restarted.
const MOST_SESSIONS: usize = 16;

/// The files that a flow needs at most: a UDP program may have two sockets, and a TCP flow that is not carried has two.
const FILES_PER_FLOW: u64 = 2;
/// The files for everything else.
const FILES_BESIDE_FLOWS: u64 = 100;

/// How long the former process may take to give its port up.
const GIVES_UP: Duration = Duration::from_secs(10);
/// The pause before a process that gets everything back tries again to go on.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is tried again.
const LOOK: Duration = Duration::from_millis(10);

/// Programs' connections belong to its process.
const NOT_REPLACED: &str = "a proxy with `stack = \"userspace\"` in [in.tun] cannot be replaced while it runs: stop it, and start the other without --replace";

/// A TCP connection belongs to its process, with what it has on the way.
const TCP_NOT_REPLACED: &str = "a proxy with a session over TCP cannot be replaced while it runs: stop it, and start the other without --replace";

/// Runs a proxy until Ctrl-C or SIGTERM.
///
/// With --listen, the first line of output is `listening whimbrel://KEY@HOST:PORT`. Give that URL to --peer at the
/// other end, with a name or address of this host in place of `[::1]`. --listen lets nobody in without --allow, or a
/// `[[peer]]` in the file. Both signals are its regular end, with exit code 0; a second one resets
/// the flows that still run.
#[derive(Args, Clone, Debug)]
pub(super) struct RunCommand {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    runtime: RuntimeOptions,
    /// Take over from the proxy that runs with this control socket: its sessions, TCP flows and addresses. TCP flows go on. The
    /// former process then ends.
    #[arg(long)]
    replace: bool,
}

/// The sockets of a proxy.
struct Bound {
    endpoint: Endpoint,
    /// The URL to give to peers, if the proxy listens for them.
    listening: Option<String>,
    tcp: TcpConnector,
    admission: Admission,
}

impl RunCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        self.runtime.block_on(self.serve())
    }

    async fn serve(self) -> anyhow::Result<()> {
        let settings = self.sources.read()?;
        settings.check_rights()?;
        raise_file_limit(&settings);
        let keeps = |tun: &TunSettings| tun.stack == Stack::Userspace;
        if self.replace && settings.ways_in.tun.as_ref().is_some_and(keeps) {
            return Err(Misused(NOT_REPLACED.to_owned()).into());
        }
        if self.replace && settings.uses_tcp() {
            return Err(Misused(TCP_NOT_REPLACED.to_owned()).into());
        }
        let mut taken = match self.replace {
            true => Some(upgrade::take_over(&settings).await?),
            false => None,
        };
        let mut parcel = taken.as_mut().map(|taken| std::mem::take(&mut taken.parcel)).unwrap_or_default();
        let mut is_back = false;
        // Again if another process should take over and cannot.
        loop {
            let (mut service, mut proxy) = match self.prepare(&settings, &parcel).await {
                Err(error) if is_back => {
                    // Flows wait, and are not given up for what may pass.
                    note(format_args!("this process cannot continue yet: {error:#}; trying again"));
                    tokio::select! {
                        signal = interrupted()? => return Err(signal.into()),
                        () = tokio::time::sleep(AGAIN) => continue,
                    }
                }
                prepared => prepared?,
            };
            if let Some(taken) = taken.take() {
                taken.done().await?;
                let (sessions, flows) = parcel.counts();
                note(format_args!("taken over: sessions: {sessions}, TCP flows: {flows}"));
            }
            // From here on, no other process goes on with them.
            proxy.go_on(std::mem::take(&mut parcel));
            let Some(other) = self.until_over(&mut service, &mut proxy).await else {
                tokio::select! {
                    _ = proxy.drain(settings.limits.drain) => {}
                    // A second signal: at once.
                    _ = service.next() => {}
                }
                service.finish(0, "the proxy was stopped", STOP_PATIENCE).await?;
                return Ok(());
            };
            note(format_args!("another process takes over"));
            let giving = async {
                let handed = proxy.hand_over().await;
                // The other process needs the addresses.
                drop(service);
                release_reset_salts();
                other.give(handed).await
            };
            let given = tokio::select! {
                given = giving => given,
                // The other process may hang.
                signal = interrupted()? => return Err(signal.into()),
            };
            match given {
                Ok((sessions, flows)) => {
                    note(format_args!("handed over sessions: {sessions}, TCP flows: {flows}"));
                    return Ok(());
                }
                Err((back, why)) => {
                    note(format_args!("the other process did not take over, so this one continues: {why}"));
                    (parcel, is_back) = (back, true);
                }
            }
        }
    }

    /// Prepares the proxy, which may go on with what another process has left, and starts its interfaces.
    async fn prepare(&self, settings: &Settings, parcel: &Parcel) -> anyhow::Result<(Service, Proxy)> {
        let Bound { endpoint, listening, tcp, admission } = self.bind_again(settings, parcel.port()).await?;
        let status: Arc<OnceLock<ProxyStatus>> = Arc::default();
        let shown = Arc::clone(&status);
        let more = move || shown.get().map_or(serde_json::Value::Null, ProxyStatus::shown);
        let file = self.sources.config.as_deref();
        let service = monitor::start("proxy", &settings.service, file, &endpoint, more).await?;
        let mut proxy = Proxy::prepare(settings, &endpoint, service.activity(), note, parcel).await?;
        let identity = tcp.identity.clone();
        proxy.set_tcp(tcp);
        proxy.set_admission(admission);
        proxy.set_paths(self.sources.transport.paths.paths()?);
        if let Some(client) = self.broker_client(settings, &identity).await? {
            proxy.set_broker(client);
        }
        proxy.register(service.metrics());
        drop(status.set(proxy.status()));
        if let Some(url) = listening {
            print_line(format_args!("listening {url}"))?;
        }
        Ok((service, proxy))
    }

    /// Serves until the proxy is stopped, or another process takes over, which is returned.
    async fn until_over(&self, service: &mut Service, proxy: &mut Proxy) -> Option<Heir> {
        loop {
            match service.next().await {
                Command::Stop(_) => return None,
                Command::Reload(asked) => {
                    service.reloading();
                    let reloaded = self.reload(proxy);
                    service.reloaded();
                    monitor::answer(service, asked, reloaded);
                }
                // The other process is told by the end of the connection.
                Command::HandOver(_) if proxy.keeps_connections() => {
                    note(format_args!("nothing is handed over: {NOT_REPLACED}"));
                }
                Command::HandOver(_) if proxy.uses_tcp() => {
                    note(format_args!("nothing is handed over: {TCP_NOT_REPLACED}"));
                }
                Command::HandOver(stream) => match Heir::offer(stream).await {
                    Ok(heir) => return Some(heir),
                    Err(error) => note(format_args!("nothing is handed over: {error}")),
                },
                _ => {}
            }
        }
    }

    /// Opens the socket on the port that the former process is about to give up.
    async fn bind_again(&self, settings: &Settings, port: u16) -> anyhow::Result<Bound> {
        let deadline = Instant::now() + GIVES_UP;
        loop {
            match self.bind(settings, port).await {
                Err(_) if port != 0 && Instant::now() < deadline => tokio::time::sleep(LOOK).await,
                bound => return bound,
            }
        }
    }

    /// Opens the socket. Returns the URL to give to peers, if the proxy listens for them.
    async fn bind(&self, settings: &Settings, port: u16) -> anyhow::Result<Bound> {
        let connector = settings.listen.as_ref().map(|listen| listen.connector);
        let listen = settings.listen.clone().unwrap_or_default().settings;
        let key = self.sources.key.clone().or(listen.key);
        let (identity, is_new) = own_or_new(key.as_deref())?;
        let path = key.map_or_else(default_key_file, Ok)?;
        if is_new {
            note(format_args!("made the key {} with the public key {}", path.display(), identity.public()));
        }
        let paths = self.sources.transport.paths.paths()?;
        let config = Config::default().transport(settings.transport.clone()).paths(paths);
        let config = config.protocol(PROTOCOL.into()).mark(settings.mark());
        let psk = read_psk(listen.psk.as_deref())?;
        let admission = Admission::new(settings.keys());
        let mut tcp = TcpConnector { identity: identity.clone(), psk: psk.clone(), listener: None };
        if connector != Some(Connector::Whimbrel) {
            let listening = match connector {
                Some(_) => {
                    let (listener, url) = tcp::listen(listen.address, identity.public())?;
                    tcp.listener = Some(listener);
                    Some(PeerUrl { connector: Connector::Tcp, url }.to_string())
                }
                None => None,
            };
            let endpoint = bind_both_families(config.identity(identity).psk(psk), port).await?;
            return Ok(Bound { endpoint, listening, tcp, admission });
        }
        let mut admitted = listen.config;
        // A reload changes who is admitted, and a stop lets nobody in.
        let asked = admission.clone();
        admitted.allow = None;
        admitted.admit = Some(Arc::new(move |key, from| asked.ask(key, Some(from), note)));
        admitted.protocols = vec![PROTOCOL.into()];
        admitted.max_per_key = admitted.max_per_key.min(MOST_SESSIONS);
        let mut options = ListenOptions::new(config.listen(Some(admitted))).key(path);
        // A port of its own choice stays.
        let address = listen.address.map(|address| match address.port() {
            0 => SocketAddr::new(address.ip(), port),
            _ => address,
        });
        (options.address, options.psk) = (address, listen.psk);
        let Listening { endpoint, url } = options.listen(note).await?;
        Ok(Bound { endpoint, listening: Some(url.to_string()), tcp, admission })
    }

    /// Starts a client of the broker that groups go through, if there is one.
    async fn broker_client(
        &self,
        settings: &Settings,
        identity: &Identity,
    ) -> anyhow::Result<Option<Client>> {
        let broker = settings.multicast.as_ref().and_then(|multicast| multicast.broker.as_ref());
        let Some(broker) = broker else { return Ok(None) };
        let config = Config::default().transport(settings.transport.clone());
        let config = endpoint_config(config).identity(identity.clone()).mark(settings.mark());
        let endpoint = bind_both_families(config.paths(self.sources.transport.paths.paths()?), 0).await?;
        let mut options = ClientOptions::new(broker.urls.clone());
        options.name = "proxy".to_owned();
        Ok(Some(Client::start(endpoint, options)))
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

/// Raises the number of files that this process may open as far as it may, and says so if that is not enough.
fn raise_file_limit(settings: &Settings) {
    let of_flows = FILES_PER_FLOW.saturating_mul(settings.limits.max_flows as u64);
    let wanted = of_flows.saturating_add(FILES_BESIDE_FLOWS);
    match rlimit::increase_nofile_limit(wanted) {
        Ok(files) if files < wanted => note(format_args!(
            "{} flows need {wanted} files, but this process may open {files}: raise its limit (`ulimit -n`, or LimitNOFILE= of \
             systemd), or lower [limits] max_flows. Until files are closed, further programs wait",
            settings.limits.max_flows
        )),
        // Where the limit cannot be read, it is not ours to judge.
        Ok(_) | Err(_) => {}
    }
}
