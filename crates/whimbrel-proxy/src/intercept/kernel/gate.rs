//! The gate for new TCP connections: a SYN waits until the far end has answered, and is then handed back to whoever
//! accepts connections, or answered as the far end was. So a closed port looks closed to a program, and an open one open.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::sleep;

use super::held::{HeldSyns, Pair, Verdict};
use super::seen::SeenDscps;
use super::segment::SynRefusal;
use crate::intercept::ingress::{Ingress, Way};
use crate::policy::{Accept, Action, Dscp, Protocol};
use crate::protocol::Outcome;
use crate::relay::{Refused, Socket};

/// How often it is looked at whether a program has given up.
const LOOK: Duration = Duration::from_secs(1);

/// The gate.
#[derive(Debug)]
pub(in crate::intercept) struct Gate {
    ingress: Ingress,
    held: Mutex<HeldSyns<Way>>,
    /// The DSCPs of connections that are to be opened or accepted.
    seen: SeenDscps,
}

/// The fate of a SYN that was held, as it came.
#[derive(Debug)]
pub(in crate::intercept) enum Fate {
    /// The far end is connected.
    HandBack(Vec<u8>),
    /// The program is told this.
    Refuse(Vec<u8>, SynRefusal),
}

impl Gate {
    /// A gate for connections that go where the rules say.
    pub(in crate::intercept) fn new(ingress: Ingress) -> Self {
        Self { ingress, held: Mutex::default(), seen: SeenDscps::default() }
    }

    /// Takes a SYN, and its DSCP if that is known.
    pub(in crate::intercept) fn on_syn(&self, pair: Pair, syn: &[u8], dscp: Option<Dscp>) -> Verdict {
        let rules = self.ingress.rules();
        let key = self.ingress.with_dscp(dscp).key(Protocol::Tcp, pair.target.into(), pair.program);
        let decision = rules.decide(&key);
        if decision.action == Action::Drop {
            self.ingress.log(&decision, &key);
            return Verdict::Nothing;
        }
        // What is rejected is not accepted first.
        let waits = decision.accept != Some(Accept::Early) || decision.action == Action::Reject;
        let verdict = self.lock().on_syn(pair, syn, waits, Instant::now());
        let begins = verdict == Verdict::Open || verdict == Verdict::HandBack && !waits;
        if let Some(dscp) = dscp.filter(|_| begins && rules.asks().dscp) {
            self.seen.on_syn(pair, dscp, Instant::now());
        }
        verdict
    }

    /// Opens a connection at the far end, whose SYN waits. `None`: the program hears nothing.
    pub(in crate::intercept) async fn open(&self, pair: Pair) -> Option<Fate> {
        let gone = async {
            while !self.lock().is_given_up(pair, Instant::now()) {
                sleep(LOOK).await;
            }
        };
        let ingress = self.ingress.with_dscp(self.seen.take(pair));
        match ingress.open(&pair.target.into(), pair.program, Bytes::new(), gone).await {
            Ok((way, _)) => self.lock().on_connected(pair, way, Instant::now()).map(Fate::HandBack),
            Err(refused) => {
                let syn = self.lock().on_refused(pair)?;
                Some(Fate::Refuse(syn, told(refused)?))
            }
        }
    }

    /// Carries a connection that was accepted after its SYN was handed back.
    pub(in crate::intercept) async fn serve(&self, pair: Pair, program: impl Into<Socket>) {
        let way = self.lock().take(pair, Instant::now());
        match way {
            Some(way) => self.ingress.run(way, program).await,
            None => {
                let ingress = self.ingress.with_dscp(self.seen.take(pair));
                ingress.carry(&pair.target.into(), pair.program, program).await;
            }
        }
    }

    /// Forgets connections whose SYNs are held, and those that nobody has accepted.
    pub(in crate::intercept) fn forget(&self) {
        *self.lock() = HeldSyns::default();
    }

    /// Forgets what has had its time.
    pub(in crate::intercept) fn expire(&self) {
        drop(self.lock().expire(Instant::now()));
    }

    pub(in crate::intercept) fn ingress(&self) -> &Ingress {
        &self.ingress
    }

    fn lock(&self) -> MutexGuard<'_, HeldSyns<Way>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the answer to a program. `None`: none, as if nobody had answered.
fn told(refused: Refused) -> Option<SynRefusal> {
    if refused == Refused::ProgramGone {
        return None;
    }
    match refused.outcome() {
        Outcome::Refused => Some(SynRefusal::Reset),
        Outcome::HostUnreachable | Outcome::NameNotFound | Outcome::Failed => Some(SynRefusal::Host),
        Outcome::NetworkUnreachable => Some(SynRefusal::Network),
        Outcome::Denied => Some(SynRefusal::Prohibited),
        // It tries again by itself.
        Outcome::TimedOut | Outcome::Limit | Outcome::Connected => None,
    }
}
