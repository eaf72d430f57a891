//! Interception while it runs: what it has made in the kernel, and the tasks that serve it.

use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::interval;

use super::addresses::Addresses;
use super::device::{Device, forward};
use super::error::TunError;
use super::kernel_tcp::KernelTcp;
use super::pump::{Outflow, Pump, Sent};
use super::routes::commands;
use super::settings::{Stack, TunSettings};
use super::stack::Tcp;
use super::udp::Replies;
use super::userspace::UserspaceTcp;
use super::virtio::LENGTH;
use crate::intercept::Ingress;
use crate::intercept::kernel::{
    Answer, Gate, Instance, KernelError, Pair, Routes, check_forwarding, check_rights, has_ipv6, refusal,
    remove_dead,
};
use crate::intercept::udp_programs::UdpPrograms;
use crate::policy::WayIn;

/// How often idle programs are forgotten.
const LOOK: Duration = Duration::from_secs(5);

/// Interception. Dropping it ends it, and leaves nothing in the kernel.
#[derive(Debug)]
pub struct TunInterception {
    // They are dropped in this order: nothing leads to what is gone.
    _routes: Routes,
    _pump: Running,
    service: Option<Service>,
    _instance: Instance,
}

/// A task that ends with this.
#[derive(Debug)]
struct Running(JoinHandle<()>);

/// The parts that serve programs.
#[derive(Debug)]
struct Service {
    device: Arc<Device>,
    addresses: Addresses,
    /// Networks that programs reach without the proxy.
    except: Vec<IpNet>,
    gate: Arc<Gate>,
    tcp: Tcp,
    listeners: Vec<std::net::TcpListener>,
    outflow: Outflow,
    /// Ends with the interface.
    gone: oneshot::Receiver<()>,
}

impl TunInterception {
    /// Begins to intercept. [`TunInterception::serve`] must run then. It blocks while programs set up the kernel, and must
    /// be called within a runtime.
    ///
    /// # Errors
    /// The process has no right to, something is missing or taken, or the kernel does not forward. Nothing is left then.
    pub fn start(settings: &TunSettings, ingress: Ingress) -> Result<Self, TunError> {
        check_rights()?;
        let ingress = ingress.by(WayIn::Tun);
        let has_ipv6 = has_ipv6();
        remove_dead()?;
        check_forwarding(&settings.interfaces)?;
        let instance = Instance::claim(settings.mark)?;
        let names = instance.names;
        let addresses = Addresses::new(settings, names.number());
        let routes = commands(names, settings, &addresses, has_ipv6);
        if routes.is_empty() {
            return Err(TunError::NoFamily);
        }
        let device = Arc::new(Device::create(&names.tun(), &addresses, has_ipv6)?);
        if !settings.interfaces.is_empty() {
            forward(device.name())?;
        }
        let gate = Arc::new(Gate::new(ingress));
        let (tcp, listeners) = listen(settings.stack, &device, &gate, addresses, has_ipv6)?;
        let (pump, outflow) = Pump::new(Arc::clone(&device), Arc::clone(&gate), tcp.clone());
        let (is_there, gone) = oneshot::channel();
        let pump = Running(tokio::spawn(async move {
            pump.run().await;
            drop(is_there);
        }));
        let routes = Routes::create(names, routes)?;
        let except = settings.except.clone();
        let service = Some(Service { device, addresses, except, gate, tcp, listeners, outflow, gone });
        Ok(Self { _routes: routes, _pump: pump, service, _instance: instance })
    }

    /// Returns what serves programs, for ever. Without it, connections are refused. `tell` hears if somebody took the
    /// interface away.
    pub fn serve<T: Fn(&'static str) + Send + 'static>(
        &mut self,
        tell: T,
    ) -> impl Future<Output = ()> + Send + use<T> {
        let service = self.service.take();
        async move {
            if let Some(service) = service {
                service.run(tell).await;
            }
        }
    }
}

impl Service {
    async fn run(self, tell: impl Fn(&'static str)) {
        let Self { device, addresses, except, gate, tcp, listeners, outflow, gone } = self;
        let Outflow { mut openings, mut datagrams } = outflow;
        let (mut tasks, mut opening) = (JoinSet::new(), JoinSet::new());
        for listener in listeners {
            match (&tcp, TcpListener::from_std(listener)) {
                (Tcp::Kernel(tcp), Ok(listener)) => {
                    drop(tasks.spawn(Arc::clone(tcp).accept(listener, Arc::clone(&gate))));
                }
                // Only the kernel's has listeners, and an error means that the runtime is about to end.
                (Tcp::Userspace(_), _) | (_, Err(_)) => return,
            }
        }
        let mut programs =
            UdpPrograms::new(gate.ingress().clone(), Replies::new(Arc::clone(&device), addresses), except);
        let (mut look, mut gone) = (interval(LOOK), std::pin::pin!(gone));
        let mut is_there = true;
        loop {
            tokio::select! {
                Some(pair) = openings.recv() => {
                    let (gate, tcp, device) = (Arc::clone(&gate), tcp.clone(), Arc::clone(&device));
                    opening.spawn(open(gate, tcp, device, pair));
                }
                Some(Sent { program, target, payload, dscp }) = datagrams.recv() => {
                    programs.take(program, (target, payload, dscp));
                }
                _ = look.tick() => programs.expire(),
                _ = &mut gone, if is_there => {
                    is_there = false;
                    tell("the TUN interface was taken away, so nothing is intercepted: start the proxy again");
                }
            }
            while opening.try_join_next().is_some() {}
        }
    }
}

/// Opens a connection whose SYN is held, and answers that.
async fn open(gate: Arc<Gate>, tcp: Tcp, device: Arc<Device>, pair: Pair) {
    match gate.open(pair).await {
        Some(Answer::HandBack(syn)) => tcp.hand_back(syn, pair, false),
        Some(Answer::Refuse(syn, what)) => {
            let answer = syn.get(LENGTH..).and_then(|syn| refusal(syn, what));
            answer.iter().for_each(|answer| device.write_bare(answer));
        }
        None => {}
    }
}

/// Prepares the TCP that answers programs, and what it accepts connections on.
fn listen(
    stack: Stack,
    device: &Arc<Device>,
    gate: &Arc<Gate>,
    addresses: Addresses,
    has_ipv6: bool,
) -> Result<(Tcp, Vec<std::net::TcpListener>), KernelError> {
    let device = Arc::clone(device);
    if stack == Stack::Userspace {
        return Ok((Tcp::Userspace(UserspaceTcp::new(device, Arc::clone(gate))), Vec::new()));
    }
    let (tcp, listeners) = KernelTcp::listen(device, addresses, has_ipv6)?;
    Ok((Tcp::Kernel(tcp), listeners))
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}
