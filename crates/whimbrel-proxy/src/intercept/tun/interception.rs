//! Interception while it runs: what it has made in the kernel, and the tasks that serve it.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::interval;

use super::addresses::Addresses;
use super::device::{Device, forward};
use super::error::TunError;
use super::kernel::TunKernel;
use super::kernel_tcp::{Claim, KernelTcp};
use super::parts::{TunNote, TunParts};
use super::pump::{Outflow, Pump, SentDatagram};
use super::settings::{Stack, TunSettings};
use super::stack::TunTcp;
use super::udp::Replies;
use super::userspace::UserspaceTcp;
use super::virtio::LENGTH;
use crate::intercept::echo::Echoes;
use crate::intercept::ingress::Ingress;
use crate::intercept::kernel::{
    Fate, Gate, Instance, Names, Pair, check_forwarding, check_rights, has_ipv6, refusal, remove_dead,
};
use crate::intercept::udp_programs::UdpPrograms;
use crate::policy::WayIn;

/// How often idle programs are forgotten.
const LOOK: Duration = Duration::from_secs(5);

/// Interception. Dropping it ends it and leaves nothing in the kernel, unless another process goes on with it.
#[derive(Debug)]
pub struct TunInterception {
    kernel: Arc<TunKernel>,
    device: Arc<Device>,
    addresses: Addresses,
    has_ipv6: bool,
    /// The kernel's TCP, unless one of this process answers programs.
    tcp: Option<Arc<KernelTcp>>,
    pump: Option<RunningTun>,
    /// Whether another process is about to take over.
    moves: Arc<AtomicBool>,
    instance: Instance,
}

/// A task that ends with this.
#[derive(Debug)]
struct RunningTun(JoinHandle<()>);

/// The parts that serve programs.
struct Service {
    device: Arc<Device>,
    programs: UdpPrograms<Replies>,
    gate: Arc<Gate>,
    tcp: TunTcp,
    echoes: Arc<Echoes>,
    listeners: Vec<tokio::net::TcpListener>,
    outflow: Outflow,
    /// Ends with the interface.
    gone: oneshot::Receiver<()>,
}

impl TunInterception {
    /// Begins to intercept. [`TunInterception::serve`] must be called next. It blocks while programs set up the kernel, and
    /// must be called within a runtime.
    ///
    /// # Errors
    /// The process has no right to, something is missing or taken, or the kernel does not forward. Nothing is left then.
    pub fn start(settings: &TunSettings) -> Result<Self, TunError> {
        check_rights()?;
        let has_ipv6 = has_ipv6();
        remove_dead()?;
        check_forwarding(&settings.interfaces)?;
        let instance = Instance::claim(settings.mark)?;
        let names = instance.names;
        let addresses = Addresses::new(settings, names.number());
        let device = Arc::new(Device::create(&names.tun(), &addresses, has_ipv6)?);
        if !settings.interfaces.is_empty() {
            forward(device.name())?;
        }
        let tcp = match settings.stack {
            Stack::Kernel => Some(KernelTcp::listen(Arc::clone(&device), addresses, has_ipv6)?),
            Stack::Userspace => None,
        };
        let kernel = Arc::new(TunKernel::create(names, settings, has_ipv6)?);
        Ok(Self { kernel, device, addresses, has_ipv6, tcp, pump: None, moves: Arc::default(), instance })
    }

    /// Interception that another process has begun, and that is still its own until [`TunInterception::own`].
    pub(crate) fn of(parts: TunParts) -> Result<Self, TunError> {
        let TunParts { note: TunNote { number, has_ipv6, settings }, files, mappings } = parts;
        let malformed = || TunError::TakingOver(io::ErrorKind::InvalidData.into());
        let names = Names::known(number, settings.mark).ok_or_else(malformed)?;
        settings.check().map_err(|_| malformed())?;
        let mut files = files.into_iter();
        let mut next = || files.next().ok_or_else(malformed);
        let instance = Instance::of(names, next()?);
        let device = Arc::new(Device::of(&names.tun(), next()?).map_err(TunError::TakingOver)?);
        let listeners = files.map(TcpListener::from).collect();
        let addresses = Addresses::new(&settings, number);
        let tcp = KernelTcp::of(Arc::clone(&device), addresses, listeners, mappings);
        let tcp = Some(tcp.map_err(TunError::TakingOver)?);
        let kernel = Arc::new(TunKernel::of(names, settings, has_ipv6)?);
        Ok(Self { kernel, device, addresses, has_ipv6, tcp, pump: None, moves: Arc::default(), instance })
    }

    /// Returns the parts that another process needs to go on with it.
    ///
    /// # Errors
    /// There are too many open files.
    pub(crate) fn parts(&self) -> io::Result<TunParts> {
        let (number, settings) = (self.instance.names.number(), self.kernel.settings());
        let mut files: Vec<OwnedFd> = vec![self.instance.file()?, self.device.file()?];
        for listener in self.tcp.iter().flat_map(|tcp| tcp.listeners()) {
            files.push(listener.as_fd().try_clone_to_owned()?);
        }
        let mappings = self.tcp.as_ref().map(|tcp| tcp.mappings()).unwrap_or_default();
        Ok(TunParts { note: TunNote { number, has_ipv6: self.has_ipv6, settings }, files, mappings })
    }

    /// Sets whether it ends with this process. Otherwise it is another's.
    pub(crate) fn own(&self, is_ours: bool) {
        self.kernel.own(is_ours);
    }

    /// Begins no more connections, since another process is about to take over: their SYNs come again. Those that run go on.
    pub(crate) fn hold(&self) {
        self.moves.store(true, Ordering::Release);
    }

    /// Takes nothing more from the interface. What comes there waits.
    pub(crate) async fn rest(&mut self) {
        if let Some(mut pump) = self.pump.take() {
            pump.0.abort();
            // It was aborted, or the interface is gone.
            (&mut pump.0).await.ok();
        }
    }

    /// Returns whether connections belong to this process, so that no other can go on with them.
    pub(crate) fn keeps_connections(&self) -> bool {
        self.tcp.is_none()
    }

    /// The connection of a program goes on in this process, by the address that it seems to come from. None: it did not come
    /// by this interface.
    pub(crate) fn claim(&self, from: SocketAddr) -> Option<Claim> {
        self.tcp.as_ref()?.claim(from)
    }

    /// Checks that flows can go on with these settings.
    ///
    /// # Errors
    /// They differ in what cannot change while flows run, or the kernel does not forward.
    pub(crate) fn keeps(&self, settings: &TunSettings) -> Result<(), TunError> {
        let running = self.kernel.settings();
        let kept = [
            ("mark", format!("{:#x}", running.mark), running.mark == settings.mark),
            ("stack", "\"kernel\"".to_owned(), settings.stack == Stack::Kernel),
            ("own_ipv4", running.own_ipv4.to_string(), running.own_ipv4 == settings.own_ipv4),
            ("own_ipv6", running.own_ipv6.to_string(), running.own_ipv6 == settings.own_ipv6),
        ];
        if let Some((what, now, _)) = kept.into_iter().find(|(_, _, is_kept)| !is_kept) {
            return Err(TunError::Keeps(what, now));
        }
        Ok(check_forwarding(&settings.interfaces)?)
    }

    /// Returns a future that serves programs by these settings and never ends. Until it runs, and once it was dropped, connections are refused.
    /// `tell` hears if somebody took the interface away, or what is intercepted could not be changed.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn serve<T: Fn(&'static str) + Send + 'static>(
        &mut self,
        settings: &TunSettings,
        ingress: Ingress,
        tell: T,
    ) -> Result<impl Future<Output = ()> + Send + use<T>, TunError> {
        let ingress = ingress.by(WayIn::Tun);
        let device = Arc::clone(&self.device);
        let gate = Arc::new(Gate::new(ingress.clone()));
        let echoes = Echoes::new(ingress.clone(), device.clone());
        let tcp = match &self.tcp {
            Some(tcp) => TunTcp::Kernel(Arc::clone(tcp)),
            None => TunTcp::Userspace(UserspaceTcp::new(Arc::clone(&device), Arc::clone(&gate))),
        };
        let listeners = self.tcp.iter().flat_map(|tcp| tcp.listeners());
        let listeners = listeners.map(|listener| tokio::net::TcpListener::from_std(listener.try_clone()?));
        let listeners = listeners.collect::<io::Result<_>>().map_err(TunError::TakingOver)?;
        let moves = Arc::clone(&self.moves);
        moves.store(false, Ordering::Release);
        let (pump, outflow) =
            Pump::new(Arc::clone(&device), Arc::clone(&gate), tcp.clone(), Arc::clone(&echoes), moves);
        let (is_there, gone) = oneshot::channel();
        self.pump = Some(RunningTun(tokio::spawn(async move {
            pump.run().await;
            drop(is_there);
        })));
        let replies = Replies::new(Arc::clone(&device), self.addresses);
        let programs = UdpPrograms::new(ingress, replies, settings.except.clone());
        let service = Service { device, programs, gate, tcp, echoes, listeners, outflow, gone };
        let (kernel, settings) = (Arc::clone(&self.kernel), settings.clone());
        Ok(async move {
            // They may be those of another process.
            let changed = spawn_blocking(move || kernel.change(&settings)).await;
            if !matches!(changed, Ok(Ok(()))) {
                tell("cannot change what is intercepted, so it stays as it was");
            }
            service.run(tell).await;
        })
    }
}

impl Service {
    async fn run(self, tell: impl Fn(&'static str)) {
        let Self { device, mut programs, gate, tcp, echoes, listeners, outflow, gone } = self;
        let Outflow { mut openings, mut datagrams } = outflow;
        let (mut tasks, mut opening) = (JoinSet::new(), JoinSet::new());
        tasks.spawn(echoes.answer_all());
        for listener in listeners {
            // Only the kernel's has listeners.
            if let TunTcp::Kernel(tcp) = &tcp {
                tasks.spawn(Arc::clone(tcp).accept(listener, Arc::clone(&gate)));
            }
        }
        let (mut look, mut gone) = (interval(LOOK), std::pin::pin!(gone));
        let mut is_there = true;
        loop {
            tokio::select! {
                Some(pair) = openings.recv() => {
                    let (gate, tcp, device) = (Arc::clone(&gate), tcp.clone(), Arc::clone(&device));
                    opening.spawn(open(gate, tcp, device, pair));
                }
                Some(SentDatagram { program, target, payload, dscp }) = datagrams.recv() => {
                    programs.take(program, (target, payload, dscp));
                }
                _ = look.tick() => programs.expire(),
                _ = &mut gone, if is_there => {
                    is_there = false;
                    tell("the TUN interface was removed, so nothing is intercepted: start the proxy again");
                }
            }
            while opening.try_join_next().is_some() {}
        }
    }
}

/// Opens a connection whose SYN is held, and answers that.
async fn open(gate: Arc<Gate>, tcp: TunTcp, device: Arc<Device>, pair: Pair) {
    match gate.open(pair).await {
        Some(Fate::HandBack(syn)) => tcp.hand_back(syn, pair, false),
        Some(Fate::Refuse(syn, what)) => {
            let answer = syn.get(LENGTH..).and_then(|syn| refusal(syn, what));
            answer.iter().for_each(|answer| device.write_bare(answer));
        }
        None => {}
    }
}

impl Drop for TunInterception {
    fn drop(&mut self) {
        // First of all: nothing leads to what is gone. A task that ends later may have a share in it, too.
        self.kernel.end();
    }
}

impl Drop for RunningTun {
    fn drop(&mut self) {
        self.0.abort();
    }
}
