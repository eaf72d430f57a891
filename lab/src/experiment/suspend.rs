//! A session that leaves its process and its address in mid-transfer.

use super::measure::millis;
use super::several;
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::flow::Moved;
use crate::job::{Job, Want};
use crate::sample::Metrics;
use crate::testbed::Testbed;

pub(crate) struct Suspend;

const RTT_MS: f64 = 50.0;
const LOSSES: [u32; 2] = [0, 5];
/// Messages per second, and bytes of each: 2.4 of 4 Mbit/s.
const RATE: f64 = 300.0;
const SIZE: usize = 1000;
/// Seconds before the session is suspended, and after it was resumed.
const BEFORE: f64 = 3.0;
const AFTER: f64 = 3.0;

fn loss(condition: &str) -> Option<u32> {
    condition.strip_suffix(" % loss")?.parse().ok()
}

fn words(loss: u32) -> String {
    let link = format!("rate=4mbit, delay=25ms, queue=100ms, loss={loss}%");
    [link.clone(), link].join(" | ")
}

impl Experiment for Suspend {
    fn name(&self) -> &'static str {
        "suspend"
    }

    fn about(&self) -> About {
        About {
            title: "A session leaves its process and its address",
            source: "Mockets (2006), section 5.1, endpoint migration; the goals for several paths: nothing lost, nothing twice",
            measured: "The caller sends 300 messages of 1,000 bytes a second, reliable and in order. After 3 s it \
                       suspends its session into bytes and is killed. Another process gets them, resumes from the \
                       host's other address, over the other link, and sends 3 s more. `first delivery` is the time \
                       from the resume call to the first message read after it. The gap is the longest time without a \
                       message read from the suspend call on. It holds suspending, the start of a process, and \
                       resuming. `lost`, `twice` and `disorder` are over all messages. The limit of a first delivery \
                       is a round trip of set-up and half of one to the receiver. No other peer has anything to \
                       compare.",
            why: "Suspending takes a round trip, in which the peer says how long it will wait. Resuming is a handshake of two round trips: the client \
                  must prove that the session is its own, so it sends nothing early. The first message can arrive half a round trip later. Messages \
                  without an acknowledgement are part of the suspended state and are sent again. The peer recognises those that had arrived by their \
                  numbers. Under loss, each of these packets may have to be sent again.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let losses = LOSSES.into_iter().filter(|loss| !options.quick || *loss > 0);
        losses.map(|loss| Case::new(format!("{loss} % loss"), "whimbrel", Cost::LIGHT)).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, _: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let loss = loss(&case.condition).ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let testbed = Testbed::new(&several::plans(&words(loss))?, seed)?;
            let count = ((BEFORE + AFTER) * RATE) as u64;
            let job = Job::Messages { size: SIZE, rate: RATE, count, want: Want::Ordered };
            let messages = (BEFORE * RATE) as u64;
            let moved = Moved::run(&testbed, &job, messages, BEFORE + AFTER + 15.0).await?;
            let (figures, left, mut metrics) = (moved.flow.figures, moved.left, Metrics::default());
            let arrivals: Vec<u64> = figures.messages.iter().map(|(.., at)| *at).collect();
            let first = arrivals.iter().find(|at| **at > moved.resumed);
            let first = first.ok_or_else(|| anyhow::anyhow!("nothing came after the session was resumed"))?;
            metrics.set("first_ms", millis(moved.resumed, *first));
            let after = arrivals.windows(2).filter(|two| two[1] > left.called);
            metrics.set("gap_ms", after.map(|two| millis(two[0], two[1])).fold(0.0, f64::max));
            metrics.set("suspend_ms", millis(left.called, left.suspended));
            metrics.set("state_kb", left.bytes as f64 / 1e3);
            metrics.set("lost", figures.lost(count) as f64);
            metrics.set("twice", figures.duplicates() as f64);
            let disorder = figures.messages.windows(2).filter(|two| two[1].0 < two[0].0).count();
            metrics.set("disorder", disorder as f64);
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "The limit counts one round trip of set-up, but a resumed session's handshake takes two. Nothing is sent \
             early before the proof that the session is this caller's. That accounts for 125 of the 135 ms that were \
             found.",
        )
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("a trial lasts 3 s before the suspension and 3 s after it")
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::lower("first_ms", "first delivery after resuming, ms", 0),
            Column::lower("gap_ms", "longest gap, ms", 0),
            Column::lower("suspend_ms", "suspending, ms", 0),
            Column::neutral("state_kb", "the session as bytes, KB", 1),
            Column::lower("lost", "lost", 0),
            Column::lower("twice", "twice", 0),
            Column::lower("disorder", "out of order", 0),
        ]
    }

    fn limit(&self, _: &str, metric: &str) -> Option<f64> {
        match metric {
            "first_ms" => Some(1.5 * RTT_MS),
            "lost" | "twice" | "disorder" => Some(0.0),
            _ => None,
        }
    }

    fn links(&self) -> Vec<(String, String)> {
        LOSSES.map(|loss| (format!("{loss} % loss"), words(loss))).to_vec()
    }

    fn seconds(&self, _: &Case, _: &Options) -> f64 {
        BEFORE + AFTER + 1.5
    }
}
