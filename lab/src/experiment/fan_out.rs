//! One publisher and many subscribers: our broker beside nats-server and mosquitto.

use serde::Deserialize;

use super::workspace;
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::report::plot::Plot;
use crate::sample::Metrics;

pub(crate) struct FanOut;

/// Conditions, with the arguments of the load and the first rates, messages a second, of a broker that writes each message and of others.
const LOADS: [(&str, &str, [f64; 2]); 3] = [
    ("To 100 subscribers", "--subscribers 100", [100.0, 2_000.0]),
    ("To 1,000 subscribers", "--subscribers 1000 --p99 50", [10.0, 100.0]),
    ("To 99 subscribers, and one that never reads", "--subscribers 99 --slow 1", [100.0, 2_000.0]),
];
const OURS: &str = "whimbrel";
const OURS_MQTT: &str = "whimbrel-mqtt";
const MOSQUITTO: &str = "mosquitto";
const PEERS: [&str; 4] = [OURS, "nats", OURS_MQTT, MOSQUITTO];
/// Seconds of a step, and in a quick run.
const SPAN: f64 = 1.0;
const QUICK_SPAN: f64 = 0.2;
/// The most steps of a trial, and of a quick one.
const STEPS: usize = 30;
const QUICK_STEPS: usize = 4;

#[derive(Deserialize)]
struct Report {
    bytes_each: f64,
    best: Option<Step>,
}

#[derive(Deserialize)]
struct Step {
    deliveries: f64,
    p50_ms: f64,
    p99_ms: f64,
    broker_ns: f64,
    clients_ns: f64,
}

impl Experiment for FanOut {
    fn name(&self) -> &'static str {
        "fan-out"
    }

    fn about(&self) -> About {
        About {
            title: "Fan-out of a broker on one machine",
            source: "the broker's own goals: at least nats-server's deliveries a second to 100 subscribers at equal p99, sealed, and twice \
                     those to 1,000; over MQTT eight times mosquitto's; one slow subscriber of 100 costs the others nothing",
            measured: "One broker at a time, one publisher and subscribers of one topic, messages of 50 bytes, over loopback. The publisher and \
                       all subscribers are one process of the benches workspace, `fan-out load`. They are raw: they read stamps and counts, and \
                       no more. Each native subscriber has an endpoint, a socket and a key of its own. Those of MQTT speak 3.1.1 at QoS 0. \
                       The rate is halved until a step counts, and then grows by a quarter from step to step. A step counts if at least 97 % of what was \
                       offered was published, and everything was delivered once and in order. Its p99 must be at most 25 ms, or 50 ms \
                       to 1,000 subscribers. The figures are those of the step with the most deliveries. Latency is from when \
                       a message was due. Processor time is that of a delivery, and includes the kernel's in the process. Brokers have \
                       their defaults, and nats-server and mosquitto seal nothing.",
            why: "A call into the kernel for each message and subscriber is what fan-out costs first. nats-server and our broker put what waits \
                  for a subscriber into one call; mosquitto makes a call for each message. Our native packets are sealed for each \
                  subscriber, and acknowledged.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let loads = LOADS.iter().take(if options.quick { 1 } else { LOADS.len() });
        let peers = if options.quick { &PEERS[..1] } else { &PEERS[..] };
        loads
            .flat_map(|(load, ..)| peers.iter().map(move |peer| Case::new(*load, *peer, Cost::Heavy)))
            .collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, _: u64) -> Trial<'a> {
        Box::pin(async move {
            let load = LOADS.iter().find(|(condition, ..)| *condition == case.condition);
            let (_, load, [slow, fast]) = load.ok_or_else(|| anyhow::anyhow!("no such load"))?;
            let rate = if case.peer == MOSQUITTO { slow } else { fast };
            let seconds = options.span(SPAN, QUICK_SPAN);
            let steps = if options.quick { QUICK_STEPS } else { STEPS };
            let arguments =
                format!("load --peer {} {load} --rate {rate} --time {seconds} --steps {steps}", case.peer);
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let report: Report = serde_json::from_str(&workspace::run("fan-out", &arguments).await?)?;
            let step = report.best.ok_or_else(|| anyhow::anyhow!("the broker kept up with no rate"))?;
            let mut metrics = Metrics::default();
            metrics.set("deliveries", step.deliveries / 1e6);
            metrics.set("p50_ms", step.p50_ms);
            metrics.set("p99_ms", step.p99_ms);
            metrics.set("broker_ns", step.broker_ns);
            metrics.set("clients_ns", step.clients_ns);
            metrics.set("bytes_each", report.bytes_each);
            Ok(metrics)
        })
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::higher("deliveries", "M deliveries/s", 3),
            Column::lower("p50_ms", "p50, ms", 2),
            Column::lower("p99_ms", "p99, ms", 2),
            Column::lower("broker_ns", "of the broker, ns a delivery", 0),
            Column::lower("clients_ns", "of the clients, ns a delivery", 0),
            Column::lower("bytes_each", "the broker's memory, bytes a subscriber", 0),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn plots(&self) -> Vec<Plot> {
        let loads = LOADS.iter().map(|(condition, ..)| (*condition).to_owned()).collect();
        vec![Plot::bars("Fan-out of 50-byte messages", "deliveries", loads).axes("", "million a second")]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        // Most trials end long before the last step.
        let steps = if options.quick { QUICK_STEPS as f64 } else { 20.0 };
        steps * (options.span(SPAN, QUICK_SPAN) + 0.2)
    }

    fn needs_testbed(&self) -> bool {
        false
    }

    fn prepare(&self) -> anyhow::Result<()> {
        workspace::build()
    }
}
