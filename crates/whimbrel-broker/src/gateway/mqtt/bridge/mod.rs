//! Bridges: this broker as a client of a broker of others, with which it exchanges messages by rules.
//!
//! Outgoing messages are read from the buffer, as a subscription reads, so an outage of the other side costs nothing that the buffer holds. What
//! comes in is acknowledged when it is as safe as its channel promises. Each message remembers the sides that it was on, and is carried to
//! none of them again.

mod dialling;
mod echoes;
mod hops;
mod incoming;
mod outgoing;
mod plan;
mod report;
mod rule;
mod session;
mod state;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use whimbrel_pubsub::frame::Refusal;

pub use plan::{BridgePlan, BridgeVersion};
pub use report::BridgeReport;
pub use rule::BridgeRule;

use super::codec::Version;
use crate::hub::{Client, Hub};
use outgoing::Outgoing;
use session::Ended;
use state::{Bridge, Tell};

/// The pauses before the other side is tried again: the first, and the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];
/// A connection that lasted for so long is followed by the shortest pause.
const LASTED: Duration = Duration::from_secs(10);
/// How long a bridge may take to leave.
const FAREWELL: Duration = Duration::from_secs(2);

/// The bridges of a broker.
#[derive(Debug)]
pub struct Bridges {
    bridges: Vec<Arc<Bridge>>,
    stopping: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// The source of reports on bridges.
#[derive(Clone, Debug)]
pub struct BridgeReports(Vec<Arc<Bridge>>);

impl BridgeReports {
    /// Returns a report on each bridge.
    pub fn all(&self) -> Vec<BridgeReport> {
        self.0.iter().map(|bridge| bridge.report()).collect()
    }
}

impl Bridges {
    /// Builds these bridges. A remote broker that cannot be reached is retried. `tell` tells people what they should know.
    ///
    /// # Errors
    /// No channel has the topics of a rule for what goes out, or a limit is reached.
    pub fn start(
        hub: &Arc<Hub>,
        plans: Vec<BridgePlan>,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, Refusal> {
        let tell: Tell = Arc::new(tell);
        let (stopping, stopped) = watch::channel(false);
        let (mut bridges, mut tasks) = (Vec::new(), Vec::new());
        for plan in plans {
            let client = Arc::new(Client::new(&format!("bridge {}", plan.name), None));
            let attached = Outgoing::attach(hub, &client, &plan.out);
            let outgoing = attached.map_err(|refusal| {
                Refusal::new(refusal.code, format_args!("the bridge `{}`: {}", plan.name, refusal.reason))
            })?;
            let (readers, tell) = (outgoing.records(), Arc::clone(&tell));
            let bridge = Arc::new(Bridge::new(plan, hub, readers, tell, stopped.clone()));
            tasks.push(tokio::spawn(run(Arc::clone(&bridge), outgoing)));
            bridges.push(bridge);
        }
        Ok(Self { bridges, stopping, tasks })
    }

    /// Returns the source of reports on them.
    pub fn reports(&self) -> BridgeReports {
        BridgeReports(self.bridges.clone())
    }

    /// Has all of them leave, within two seconds.
    pub async fn stop(&mut self) {
        self.stopping.send_replace(true);
        for task in &mut self.tasks {
            if timeout(FAREWELL, &mut *task).await.is_err() {
                task.abort();
            }
        }
    }
}

/// Connects again and again, until the bridge is to stop.
async fn run(bridge: Arc<Bridge>, mut outgoing: Outgoing) {
    let (mut version, mut attempt) = (bridge.plan.first_version(), 0);
    while !bridge.is_stopping() {
        let began = Instant::now();
        let Ended { why, is_version } = session::run(&bridge, version, &mut outgoing).await;
        if bridge.is_stopping() {
            return;
        }
        if is_version {
            version = Version::V3;
            continue;
        }
        if bridge.figures.on_trouble(&why) {
            bridge.tell(&why);
        }
        attempt = if began.elapsed() > LASTED { 0 } else { attempt + 1 };
        tokio::select! {
            () = sleep(pause(attempt, crate::hub::random())) => {}
            () = bridge.stopping() => return,
        }
        // The other side may be another program by now.
        version = bridge.plan.first_version();
    }
}

/// The pause before the next attempt: longer each time, and never the same for all brokers that lost the other side together.
fn pause(attempt: u32, random: u64) -> Duration {
    let [first, longest] = PAUSES;
    let pause = first.saturating_mul(1 << attempt.min(16)).min(longest);
    pause.mul_f64(0.5 + (random % 1_000) as f64 / 2_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_half_a_minute() {
        assert!(pause(0, 0) < pause(0, 999) && pause(0, 999) < pause(1, 0) + Duration::from_millis(1));
        assert!(pause(40, 999) <= PAUSES[1] && pause(40, 0) >= PAUSES[1] / 2);
    }
}
