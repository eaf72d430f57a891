//! Interception while it runs: what it has made in the kernel, and the tasks that serve it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, UdpSocket};
use tokio::task::{JoinSet, spawn_blocking};

use super::error::TproxyError;
use super::gate::Gate;
use super::instance::Instance;
use super::leftovers::remove_dead;
use super::names::Names;
use super::program::Program;
use super::routes::Routes;
use super::ruleset::Ruleset;
use super::settings::TproxySettings;
use super::sockets::{tcp_listener, udp_listener};
use super::table::Table;
use super::tun::{Tun, check_forwarding, has_ipv6};
use super::udp::Datagrams;
use crate::intercept::ingress::Ingress;

/// The pause before a table is made again that somebody took away.
const PAUSE: Duration = Duration::from_secs(1);

/// Interception. Dropping it ends it, and leaves nothing in the kernel.
#[derive(Debug)]
pub struct Interception {
    // They are dropped in this order: nothing is handed over to what is gone.
    table: Arc<Mutex<Option<Table>>>,
    _routes: Routes,
    _kill_switch: Option<KillSwitch>,
    sockets: Option<Sockets>,
    ruleset: Ruleset,
    _instance: Instance,
}

#[derive(Debug)]
struct Sockets {
    tun: Tun,
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
}

/// The table that rejects what is not intercepted. A stop takes it away, and a kill does not.
#[derive(Debug)]
struct KillSwitch(Names);

impl Interception {
    /// Begins to intercept. [`Interception::serve`] must run then. It blocks while programs set up the kernel.
    ///
    /// # Errors
    /// The process has no right to, something is missing or taken, or the kernel does not forward. Nothing is left then.
    pub fn start(settings: &TproxySettings) -> Result<Self, TproxyError> {
        let has_ipv6 = has_ipv6();
        let (tcp, udp) = open(settings.port, has_ipv6)?;
        // Before anything is made, so that nothing has to be taken back.
        Program::Nft.run("--version", "")?;
        remove_dead()?;
        check_forwarding(&settings.interfaces)?;
        let instance = Instance::claim(settings.mark)?;
        let names = instance.names;
        let tun = Tun::create(&names.tun(), has_ipv6)?;
        let routes = Routes::create(names, has_ipv6)?;
        let ruleset = Ruleset { names, settings: settings.clone(), has_ipv6 };
        let kill_switch = settings.kill_switch.then(|| KillSwitch::create(&ruleset)).transpose()?;
        let table = Table::create(&ruleset)?;
        Ok(Self {
            table: Arc::new(Mutex::new(Some(table))),
            _routes: routes,
            _kill_switch: kill_switch,
            sockets: Some(Sockets { tun, tcp, udp }),
            ruleset,
            _instance: instance,
        })
    }

    /// Returns what serves programs, for ever. `tell` hears if somebody took the table away.
    pub fn serve<T: Fn(&'static str) + Send + 'static>(
        &mut self,
        ingress: Ingress,
        tell: T,
    ) -> impl Future<Output = ()> + Send + use<T> {
        let (sockets, reply) = (self.sockets.take(), self.ruleset.names.reply());
        let (table, ruleset) = (Arc::clone(&self.table), self.ruleset.clone());
        async move {
            let mut tasks = JoinSet::new();
            if let Some(Sockets { tun, tcp, udp }) = sockets {
                let tun = Arc::new(tun);
                let gate = Gate::new(ingress.clone(), Arc::clone(&tun));
                let except = ruleset.settings.except.clone();
                let datagrams = Datagrams::new(ingress, tun, reply, except);
                tasks.spawn(Arc::clone(&gate).hold());
                tcp.into_iter().for_each(|socket| drop(tasks.spawn(Arc::clone(&gate).accept(socket))));
                udp.into_iter().for_each(|socket| drop(tasks.spawn(Arc::clone(&datagrams).take(socket))));
            }
            tasks.spawn(guard(table, ruleset, tell));
            while tasks.join_next().await.is_some() {}
        }
    }
}

impl Drop for Interception {
    fn drop(&mut self) {
        // Whoever guards the table may still have it.
        self.table.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Makes the table again whenever it is lost, which nobody does by accident.
async fn guard(table: Arc<Mutex<Option<Table>>>, ruleset: Ruleset, tell: impl Fn(&'static str)) {
    loop {
        let gone = table.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(Table::gone);
        let Some(gone) = gone else { return };
        // It never says anything; it ends.
        gone.await.ok();
        tell("the process `nft` was ended, so nothing is intercepted; trying again");
        let again = loop {
            tokio::time::sleep(PAUSE).await;
            let ruleset = ruleset.clone();
            if let Ok(Ok(again)) = spawn_blocking(move || Table::create(&ruleset)).await {
                break again;
            }
        };
        *table.lock().unwrap_or_else(PoisonError::into_inner) = Some(again);
        tell("traffic is intercepted again");
    }
}

/// Opens the sockets of each family.
fn open(port: u16, has_ipv6: bool) -> Result<(Vec<TcpListener>, Vec<UdpSocket>), TproxyError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => TproxyError::Port(port),
        _ => TproxyError::system("opening a transparent socket failed")(error),
    };
    let (mut tcp, mut udp) = (Vec::new(), Vec::new());
    let all = [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    for address in &all[..1 + usize::from(has_ipv6)] {
        let listener = tcp_listener(*address).and_then(TcpListener::from_std).map_err(failed)?;
        let socket = udp_listener(*address).and_then(UdpSocket::from_std).map_err(failed)?;
        tcp.push(listener);
        udp.push(socket);
    }
    Ok((tcp, udp))
}

impl KillSwitch {
    fn create(ruleset: &Ruleset) -> Result<Self, TproxyError> {
        Program::Nft.run("-f -", &ruleset.kill_switch())?;
        Ok(Self(ruleset.names))
    }
}

impl Drop for KillSwitch {
    fn drop(&mut self) {
        // If it fails, `cleanup --all` takes it away.
        drop(Program::Nft.run(&format!("delete table inet {}", self.0.kill_switch()), ""));
    }
}
