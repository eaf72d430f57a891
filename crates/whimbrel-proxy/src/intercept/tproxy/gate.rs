//! The gate for new TCP connections: SYNs come out of the TUN, wait until the far end has answered, and are handed back
//! to the kernel, or answered as the far end was. So a closed port looks closed to a program, and an open one open.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::held::{Held, Pair, Verdict};
use super::seen::Seen;
use super::segment::{Refusal, dscp, refusal, syn};
use super::tun::Tun;
use crate::intercept::accept::{Accepted, accept};
use crate::intercept::ingress::{Ingress, Way};
use crate::policy::{Accept, Action, Dscp, Protocol};
use crate::protocol::Outcome;
use crate::relay::Refused;

/// How often what has had its time is forgotten.
const LOOK: Duration = Duration::from_secs(1);
/// The gate.
#[derive(Debug)]
pub(super) struct Gate {
    ingress: Ingress,
    tun: Arc<Tun>,
    held: Mutex<Held<Way>>,
    /// Of connections that do not wait for the far end.
    seen: Seen,
}

impl Gate {
    /// A gate for SYNs that come out of `tun`.
    pub(super) fn new(ingress: Ingress, tun: Arc<Tun>) -> Arc<Self> {
        Arc::new(Self { ingress, tun, held: Mutex::default(), seen: Seen::default() })
    }

    /// Holds SYNs, for ever.
    pub(super) async fn hold(self: Arc<Self>) {
        let (mut openings, mut look) = (JoinSet::new(), interval(LOOK));
        loop {
            let this = &self;
            let openings_of = &mut openings;
            tokio::select! {
                // It fails only if the interface is gone, and with it what could come.
                _ = this.tun.read(|packet| {
                    if let Some((pair, dscp)) = this.on_packet(packet) {
                        openings_of.spawn(Arc::clone(this).open(pair, dscp));
                    }
                }) => sleep(LOOK).await,
                _ = look.tick() => drop(this.lock().expire(Instant::now())),
            }
            while openings.try_join_next().is_some() {}
        }
    }

    /// Accepts connections whose SYNs were handed back, for ever.
    pub(super) async fn accept(self: Arc<Self>, listener: TcpListener) {
        let Ok(own) = listener.local_addr() else { return };
        accept(listener, self.ingress.places(), self.ingress.flows().over(), move |tcp| {
            Arc::clone(&self).serve(tcp, own)
        })
        .await;
    }

    /// Takes a packet from the TUN. Returns a connection that is to be opened.
    fn on_packet(&self, packet: &[u8]) -> Option<(Pair, Option<Dscp>)> {
        // The kernel says other things there, too, such as looking for routers.
        let pair = syn(packet)?;
        let (rules, dscp) = (self.ingress.rules(), dscp(packet));
        let key = self.ingress.with_dscp(dscp).key(Protocol::Tcp, pair.target.into(), pair.program);
        let decision = rules.decide(&key);
        if decision.action == Action::Drop {
            self.ingress.log(&decision, &key);
            return None;
        }
        // What is rejected is not accepted first.
        let waits = decision.accept != Some(Accept::Early) || decision.action == Action::Reject;
        let verdict = self.lock().on_syn(pair, packet, waits, Instant::now());
        match verdict {
            Verdict::Open => return Some((pair, dscp)),
            Verdict::HandBack => {
                if let Some(dscp) = dscp.filter(|_| !waits && rules.asks().dscp) {
                    self.seen.on_syn(pair, dscp, Instant::now());
                }
                self.tun.write(packet);
            }
            Verdict::Nothing => {}
        }
        None
    }

    async fn open(self: Arc<Self>, pair: Pair, dscp: Option<Dscp>) {
        let gone = async {
            while !self.lock().is_given_up(pair, Instant::now()) {
                sleep(LOOK).await;
            }
        };
        let ingress = self.ingress.with_dscp(dscp);
        match ingress.open(&pair.target.into(), pair.program, Bytes::new(), gone).await {
            Ok((way, _)) => {
                let syn = self.lock().on_connected(pair, way, Instant::now());
                if let Some(syn) = syn {
                    self.tun.write(&syn);
                }
            }
            Err(refused) => {
                let syn = self.lock().on_refused(pair);
                let answer = syn.zip(told(refused)).and_then(|(syn, what)| refusal(&syn, what));
                if let Some(answer) = answer {
                    self.tun.write(&answer);
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, Accepted { tcp, from, .. }: Accepted, own: SocketAddr) {
        let Ok(target) = tcp.local_addr().map(plain) else { return };
        // Somebody dialled the port itself.
        if target == plain(own) {
            return;
        }
        let pair = Pair { program: plain(from), target };
        let way = self.lock().take(pair, Instant::now());
        if let Some(way) = way {
            return self.ingress.run(way, tcp).await;
        }
        let ingress = self.ingress.with_dscp(self.seen.take(pair));
        ingress.carry(&target.into(), pair.program, tcp).await;
    }

    fn lock(&self) -> MutexGuard<'_, Held<Way>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without the scope of a link: packets have none.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// What a program is told. `None`: nothing, as if nobody had answered.
fn told(refused: Refused) -> Option<Refusal> {
    if refused == Refused::ProgramGone {
        return None;
    }
    match refused.outcome() {
        Outcome::Refused => Some(Refusal::Reset),
        Outcome::HostUnreachable | Outcome::NameNotFound | Outcome::Failed => Some(Refusal::Host),
        Outcome::NetworkUnreachable => Some(Refusal::Network),
        Outcome::Denied => Some(Refusal::Prohibited),
        // It tries again by itself.
        Outcome::TimedOut | Outcome::Limit | Outcome::Connected => None,
    }
}
