//! Interception while it runs: its sockets, and the tasks that serve them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ipnet::IpNet;
use tokio::task::{JoinSet, spawn_blocking};

use super::error::TproxyError;
use super::gate::TproxyGate;
use super::kernel::TproxyKernel;
use super::parts::{InterceptionNote, InterceptionParts};
use super::replies::ReplySockets;
use super::ruleset::Ruleset;
use super::settings::TproxySettings;
use super::sockets::{tcp_listener, udp_listener};
use super::table::Table;
use super::tun::Tun;
use super::udp::Datagrams;
use crate::intercept::echo::Echoes;
use crate::intercept::ingress::Ingress;
use crate::intercept::kernel::{Instance, Names, Tool, check_forwarding, has_ipv6, remove_dead};
use crate::policy::{Protocol, Rule, WayIn};

/// Interception. Dropping it ends it and leaves nothing in the kernel, unless another process goes on with it.
#[derive(Debug)]
pub struct Interception {
    kernel: Arc<TproxyKernel>,
    tun: Arc<Tun>,
    tcp: Vec<TcpListener>,
    udp: Vec<UdpSocket>,
    replies: Arc<ReplySockets>,
    port: u16,
    has_ipv6: bool,
}

impl Interception {
    /// Begins to intercept by these rules. [`Interception::serve`] must run then. It blocks while programs set up the kernel.
    ///
    /// # Errors
    /// The process has no right to, something is missing or taken, or the kernel does not forward. Nothing is left then.
    pub fn start(settings: &TproxySettings, rules: &[Rule]) -> Result<Self, TproxyError> {
        let (port, has_ipv6) = (settings.port, has_ipv6());
        let (tcp, udp) = open(port, has_ipv6)?;
        // Before anything is made, so that nothing has to be taken back.
        Tool::Nft.run("--version", "")?;
        remove_dead()?;
        check_forwarding(&settings.interfaces)?;
        let instance = Instance::claim(settings.mark)?;
        let names = instance.names;
        let tun = Arc::new(Tun::create(&names.tun(), has_ipv6)?);
        let replies = Arc::new(ReplySockets::new(names.reply(), Arc::clone(&tun)));
        let ruleset = ruleset(names, settings, has_ipv6, rules);
        let kernel = Arc::new(TproxyKernel::create(instance, ruleset)?);
        Ok(Self { kernel, tun, tcp, udp, replies, port, has_ipv6 })
    }

    /// Interception that another process has begun, and that is still its own until [`Interception::own`].
    pub(crate) fn of(parts: InterceptionParts) -> Result<Self, TproxyError> {
        let InterceptionParts { note, sockets, table, replies: open } = parts;
        let InterceptionNote { number, mark, port, has_ipv6, kill_switch } = note;
        let names = Names::known(number, mark).ok_or_else(malformed)?;
        let mut sockets = sockets.into_iter();
        let mut next = || sockets.next().ok_or_else(malformed);
        let (instance, tun) = (Instance::of(names, next()?), Arc::new(Tun::of(next()?)?));
        let (mut tcp, mut udp) = (Vec::new(), Vec::new());
        for _ in 0..1 + usize::from(has_ipv6) {
            tcp.push(next()?.into());
            udp.push(next()?.into());
        }
        let replies = Arc::new(ReplySockets::new(names.reply(), Arc::clone(&tun)));
        replies.resume(open);
        let table = table.map(|files| Table::of(names.table(), files));
        let kernel = Arc::new(TproxyKernel::of(instance, table, kill_switch));
        Ok(Self { kernel, tun, tcp, udp, replies, port, has_ipv6 })
    }

    /// Returns the parts that another process needs to go on with it.
    ///
    /// # Errors
    /// There are too many open files.
    pub(crate) fn parts(&self) -> io::Result<InterceptionParts> {
        let names = self.kernel.names();
        let (number, mark) = names.parts();
        let kill_switch = self.kernel.has_kill_switch();
        let note = InterceptionNote { number, mark, port: self.port, has_ipv6: self.has_ipv6, kill_switch };
        let again = |file: &dyn AsFd| file.as_fd().try_clone_to_owned();
        let lock = self.kernel.with(|instance, _| instance.file())?;
        let mut sockets: Vec<OwnedFd> = vec![lock, self.tun.file()?];
        for (tcp, udp) in self.tcp.iter().zip(&self.udp) {
            sockets.push(again(tcp)?);
            sockets.push(again(udp)?);
        }
        let table = self.kernel.with(|_, table| table.map(Table::files)).transpose()?;
        Ok(InterceptionParts { note, sockets, table, replies: self.replies.files() })
    }

    /// Sets whether it ends with this process. Otherwise it is another's.
    pub(crate) fn own(&self, is_ours: bool) {
        self.kernel.own(is_ours);
    }

    /// Checks that flows can go on with these settings.
    ///
    /// # Errors
    /// They differ in what cannot change while flows run, or the kernel does not forward.
    pub(crate) fn keeps(&self, settings: &TproxySettings) -> Result<(), TproxyError> {
        let (_, mark) = self.kernel.names().parts();
        if settings.mark != mark {
            return Err(TproxyError::Keeps("mark", format!("{mark:#x}")));
        }
        if settings.port != self.port {
            return Err(TproxyError::Keeps("port", self.port.to_string()));
        }
        Ok(check_forwarding(&settings.interfaces)?)
    }

    /// Follows rules that have changed: some may be for ICMP.
    pub(crate) fn follow(
        &self,
        settings: &TproxySettings,
        ingress: &Ingress,
        tell: impl Fn(&'static str) + Send + Sync + 'static,
    ) {
        let (kernel, wanted) = (Arc::clone(&self.kernel), self.wanted(settings, ingress));
        tokio::spawn(async move { change(&kernel, wanted, &tell).await });
    }

    /// Returns the traffic to be intercepted, whenever that is asked.
    fn wanted(
        &self,
        settings: &TproxySettings,
        ingress: &Ingress,
    ) -> impl FnOnce(Names) -> Ruleset + Send + use<> {
        let (settings, ingress, has_ipv6) = (settings.clone(), ingress.clone(), self.has_ipv6);
        move |names| ruleset(names, &settings, has_ipv6, ingress.rules().all())
    }

    /// Returns a future that serves programs by these settings and never ends. `tell` hears if somebody took the table away, or if it
    /// could not be changed.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn serve<T: Fn(&'static str) + Send + Sync + 'static>(
        &self,
        settings: &TproxySettings,
        ingress: Ingress,
        tell: T,
    ) -> Result<impl Future<Output = ()> + Send + use<T>, TproxyError> {
        let failed = TproxyError::system("serving what is intercepted failed");
        let ingress = ingress.by(WayIn::Tproxy);
        let (tun, kernel) = (Arc::clone(&self.tun), Arc::clone(&self.kernel));
        let echoes = Echoes::new(ingress.clone(), tun.clone());
        let gate = TproxyGate::new(ingress.clone(), Arc::clone(&tun), Arc::clone(&echoes));
        let wanted = self.wanted(settings, &ingress);
        let datagrams = Datagrams::new(ingress, tun, Arc::clone(&self.replies), settings.except.clone());
        let tcp = self.tcp.iter().map(|socket| tokio::net::TcpListener::from_std(socket.try_clone()?));
        let tcp: Vec<_> = tcp.collect::<io::Result<_>>().map_err(&failed)?;
        let udp = self.udp.iter().map(|socket| tokio::net::UdpSocket::from_std(socket.try_clone()?));
        let udp: Vec<_> = udp.collect::<io::Result<_>>().map_err(&failed)?;
        Ok(async move {
            let mut tasks = JoinSet::new();
            tasks.spawn(Arc::clone(&gate).hold());
            tasks.spawn(echoes.answer_all());
            tcp.into_iter().for_each(|socket| drop(tasks.spawn(Arc::clone(&gate).accept(socket))));
            udp.into_iter().for_each(|socket| drop(tasks.spawn(Arc::clone(&datagrams).take(socket))));
            tasks.spawn(async move {
                // The rules may be those of another process's settings.
                change(&kernel, wanted, &tell).await;
                kernel.guard(tell).await;
            });
            while tasks.join_next().await.is_some() {}
        })
    }
}

/// Returns the traffic that these settings and rules intercept.
fn ruleset(names: Names, settings: &TproxySettings, has_ipv6: bool, rules: &[Rule]) -> Ruleset {
    let pinged = rules.iter().filter(|rule| rule.protocol == Some(Protocol::Icmp));
    let pinged: Vec<IpNet> = pinged.flat_map(Rule::networks).collect();
    Ruleset { names, settings: settings.clone(), has_ipv6, pinged: IpNet::aggregate(&pinged) }
}

/// Puts rules in place of others.
async fn change(
    kernel: &Arc<TproxyKernel>,
    wanted: impl FnOnce(Names) -> Ruleset + Send + 'static,
    tell: &impl Fn(&'static str),
) {
    let changing = Arc::clone(kernel);
    let changed = spawn_blocking(move || changing.change(wanted)).await;
    if !matches!(changed, Ok(Ok(()))) {
        tell("cannot change what is intercepted, so it stays as it was");
    }
}

impl Drop for Interception {
    fn drop(&mut self) {
        // First of all: nothing is handed over to what is gone. Tasks that end later have a share in it, too.
        self.kernel.end();
    }
}

fn malformed() -> TproxyError {
    TproxyError::system("taking over interception failed")(io::ErrorKind::InvalidData.into())
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
        tcp.push(tcp_listener(*address).map_err(failed)?);
        udp.push(udp_listener(*address).map_err(failed)?);
    }
    Ok((tcp, udp))
}
