//! The work of a broker as time passes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior, interval};
use whimbrel_broker::hub::{Change, Hub, LOOK, SubscriberRecord};
use whimbrel_broker::report::Reporter;
use whimbrel_service::ActivityLog;

/// The most changes of subscribers that are logged at one look. Of more, their number is.
const MOST_LOGGED: usize = 20;

/// Has the hub do what is due, and looks at how its clients get on.
pub(super) async fn tick(hub: Arc<Hub>, reporter: Reporter, activity: Option<ActivityLog>) {
    let mut ticks = interval(Hub::TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looked = Instant::now();
    loop {
        ticks.tick().await;
        hub.tick();
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let changes = reporter.look();
            if let Some(activity) = &activity {
                log(activity, &changes);
            }
        }
    }
}

fn log(activity: &ActivityLog, changes: &[Change]) {
    for change in changes.iter().take(MOST_LOGGED) {
        match change {
            Change::Slow(record) => activity.note("subscriber slow", of(record, None)),
            Change::KeepsUp(record, slow) => activity.note("subscriber keeps up", of(record, Some(*slow))),
            Change::Left(record, slow) => activity.note("slow subscriber left", of(record, Some(*slow))),
        };
    }
    if changes.len() > MOST_LOGGED {
        activity.note("more subscribers", json!({ "changes": changes.len() - MOST_LOGGED }));
    }
}

fn of(record: &SubscriberRecord, slow: Option<Duration>) -> Value {
    json!({
        "client": record.client().name, "remote": record.client().address, "filter": record.filter(), "selector": record.selector(),
        "delivered": record.delivered(), "lost": record.lost(), "slow_s": slow.map(|slow| slow.as_secs_f64()),
    })
}
