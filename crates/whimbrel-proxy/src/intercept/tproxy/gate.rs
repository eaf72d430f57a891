//! The way of SYNs under TPROXY: they come out of the TUN to the gate, and are handed back to the kernel through it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::tun::Tun;
use crate::intercept::accept::{Accepted, accept};
use crate::intercept::echo::Echoes;
use crate::intercept::ingress::Ingress;
use crate::intercept::kernel::{self, Fate, Pair, Verdict, dscp, refusal, syn};

/// How often what has had its time is forgotten.
const LOOK: Duration = Duration::from_secs(1);

/// The gate and its TUN.
#[derive(Debug)]
pub(super) struct TproxyGate {
    gate: kernel::Gate,
    tun: Arc<Tun>,
    echoes: Arc<Echoes>,
}

impl TproxyGate {
    /// A gate for SYNs that come out of `tun`. What else comes there goes to `echoes`.
    pub(super) fn new(ingress: Ingress, tun: Arc<Tun>, echoes: Arc<Echoes>) -> Arc<Self> {
        Arc::new(Self { gate: kernel::Gate::new(ingress), tun, echoes })
    }

    /// Holds SYNs, for ever. When it is dropped, those that it holds are forgotten, and so are connections that nobody has
    /// accepted: programs send them again, to whoever takes over.
    pub(super) async fn hold(self: Arc<Self>) {
        let _forgets = Forgets(&self);
        let (mut openings, mut look) = (JoinSet::new(), interval(LOOK));
        loop {
            let this = &self;
            let openings_of = &mut openings;
            tokio::select! {
                // It fails only if the interface is gone, and with it what could come.
                _ = this.tun.read(|packet| {
                    if let Some(pair) = this.on_packet(packet) {
                        openings_of.spawn(Arc::clone(this).open(pair));
                    }
                }) => sleep(LOOK).await,
                _ = look.tick() => {
                    this.gate.expire();
                    this.echoes.expire();
                }
            }
            while openings.try_join_next().is_some() {}
        }
    }

    /// Accepts connections whose SYNs were handed back, for ever.
    pub(super) async fn accept(self: Arc<Self>, listener: TcpListener) {
        let Ok(own) = listener.local_addr() else { return };
        let ingress = self.gate.ingress().clone();
        accept(listener, ingress.places(), ingress.flows().over(), move |tcp| {
            Arc::clone(&self).serve(tcp, own)
        })
        .await;
    }

    /// Takes a packet from the TUN. Returns a connection that is to be opened.
    fn on_packet(&self, packet: &[u8]) -> Option<Pair> {
        // The kernel says other things there, too, such as looking for routers.
        let Some(pair) = syn(packet) else {
            self.echoes.on_packet(packet);
            return None;
        };
        match self.gate.on_syn(pair, packet, dscp(packet)) {
            Verdict::Open => return Some(pair),
            Verdict::HandBack => self.tun.write(packet),
            Verdict::Nothing => {}
        }
        None
    }

    async fn open(self: Arc<Self>, pair: Pair) {
        let answer = match self.gate.open(pair).await {
            Some(Fate::HandBack(syn)) => Some(syn),
            Some(Fate::Refuse(syn, what)) => refusal(&syn, what),
            None => None,
        };
        if let Some(answer) = answer {
            self.tun.write(&answer);
        }
    }

    async fn serve(self: Arc<Self>, Accepted { tcp, from, .. }: Accepted, own: SocketAddr) {
        let Ok(target) = tcp.local_addr().map(plain) else { return };
        // Somebody dialled the port itself.
        if target == plain(own) {
            return;
        }
        self.gate.serve(Pair { program: plain(from), target }, tcp).await;
    }
}

struct Forgets<'a>(&'a TproxyGate);

impl Drop for Forgets<'_> {
    fn drop(&mut self) {
        self.0.gate.forget();
    }
}

/// Without the scope of a link: packets have none.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}
