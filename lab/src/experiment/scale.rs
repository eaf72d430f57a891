//! Many connections.

use anyhow::Context;

use super::workspace;
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::sample::Metrics;

pub(crate) struct Scale;

const IDLE: &str = "Idle: 10,000 connections";
const HANDSHAKES: &str = "Handshakes: 64 under way";
const MEMORY: &str = "Memory: 4,000 idle connections";
/// Peers whose idle connections are measured.
const HOLDERS: [&str; 4] = ["whimbrel", "quinn", "noq", "tcp"];
const FLOOD: &str = "Flood: 100,000 SYNs a second";

/// Returns the number right before the first `unit` in the text, apart from spaces.
fn before(text: &str, unit: &str) -> Option<f64> {
    let (ahead, _) = text.split_once(unit)?;
    let word = ahead.trim_end().rsplit([' ', '(', '\n']).next()?;
    word.parse().ok()
}

/// Reads the figures that the program prints. Each must be found, so that a reworded line is not a silent gap.
fn figures(condition: &str, text: &str) -> anyhow::Result<Metrics> {
    let wanted: &[(&str, &str)] = match condition {
        IDLE => &[
            ("connections", " connections, made"),
            ("bytes_each", " bytes each after that"),
            ("core", " % of a core over"),
        ],
        MEMORY => &[
            ("connections", " connections, made"),
            ("bytes_each", " bytes of resident memory each"),
            ("kernel_each", " bytes of the kernel's each"),
        ],
        HANDSHAKES => {
            &[("handshakes", " a second; the server took"), ("handshake_us", " µs of its core for each")]
        }
        _ => &[("quiet", " Mbit/s, "), ("share", " %) beside"), ("core", " % of a core")],
    };
    let mut metrics = Metrics::default();
    for (name, unit) in wanted {
        let value = before(text, unit).filter(|value| value.is_finite());
        metrics.set(name, value.with_context(|| format!("no number before `{unit}` in: {text}"))?);
    }
    Ok(metrics)
}

impl Experiment for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn about(&self) -> About {
        About {
            title: "Many connections",
            source: "the goals of the transport's own issue: at most 10 KB a connection and under 1 % of a core for 10,000 idle ones; \
                     4,000 handshakes a second; 70 % of the goodput beside a flood",
            measured: "The loads of the benches workspace's `scale` run one at a time, with nothing beside. The \
                       server is one process with one thread, pinned to a core, and all others share another. Memory \
                       is resident memory, at the end. Processor time is the server's, from /proc. Idle: 10,000 \
                       connections stand for 25 s, in which each keeps itself alive once. Memory: 4,000 connections do \
                       nothing. quinn and noq have their defaults, and bare TCP without encryption is the floor. One \
                       figure is the memory of the process over that with one connection. The other is that of the \
                       kernel's objects (slabs), of which each end is taken to have half. Handshakes: 10,000 are made \
                       (3,000 in a quick run), 64 of them under way. The flood runs for 3 s beside bulk over 100 \
                       Mbit/s, 20 ms, and the share is of the goodput without it.",
            why: "A handshake costs public-key operations. An idle connection costs its buffers, and two datagrams every 25 s. SYNs beyond a rate limit are \
                  dropped before they cause costly work. Connections of Whimbrel, and of QUIC, share a socket, and their memory is in the process. \
                  A TCP connection is a socket of its own, and its memory is in the kernel.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let conditions = [IDLE, HANDSHAKES, FLOOD].into_iter();
        let conditions = conditions.filter(|condition| !options.quick || *condition == HANDSHAKES);
        let ours = conditions.map(|name| Case::new(name, "whimbrel", Cost::Heavy));
        let all = HOLDERS.iter().map(|peer| Case::new(MEMORY, *peer, Cost::Heavy));
        ours.chain(all.filter(|_| !options.quick)).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, _: u64) -> Trial<'a> {
        Box::pin(async move {
            let memory = format!("idle --peer {} --connections 4000 --time 0", case.peer);
            let arguments = match case.condition.as_str() {
                MEMORY => &memory,
                IDLE => "idle --connections 10000 --time 25",
                HANDSHAKES if options.quick => "handshakes --trials 1 --count 3000",
                HANDSHAKES => "handshakes --trials 1",
                _ => "flood --trials 1 --time 3",
            };
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let text = workspace::run("scale", &arguments).await?;
            figures(&case.condition, &text)
        })
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("the loads have durations of their own")
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::lower("bytes_each", "bytes a connection", 0),
            Column::lower("kernel_each", "of the kernel, bytes a connection", 0),
            Column::lower("core", "% of the server's core", 2),
            Column::higher("handshakes", "a second", 0),
            Column::lower("handshake_us", "of the server's core for each, us", 0),
            Column::neutral("quiet", "bulk without, Mbit/s", 1),
            Column::higher("share", "beside the flood, % of that", 1),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        match case.condition.as_str() {
            IDLE => 35.0,
            MEMORY => 7.0,
            HANDSHAKES => {
                if options.quick {
                    3.0
                } else {
                    6.0
                }
            }
            _ => 13.0,
        }
    }

    fn needs_testbed(&self) -> bool {
        false
    }

    fn prepare(&self) -> anyhow::Result<()> {
        workspace::build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_benches_print() {
        let idle = "10000 connections, made in 3.4 s\n9500 bytes of resident memory each, 94 MiB in all\n\
                    1.70 % of a core over 50 s\n9812 bytes each after that\n";
        let idle = figures(IDLE, idle).unwrap().values;
        assert_eq!((idle["connections"], idle["bytes_each"], idle["core"]), (10000.0, 9812.0, 1.7));
        let handshakes = "2996 a second; the server took 153 µs of its core for each (46 % busy, good for 6550 a second), the \
                          clients 180\n";
        let handshakes = figures(HANDSHAKES, handshakes).unwrap().values;
        assert_eq!((handshakes["handshakes"], handshakes["handshake_us"]), (2996.0, 153.0));
        let flood = "95.6 Mbit/s, 95.1 Mbit/s (99 %) beside 20000 SYNs answered and 75000 dropped a second; memory 6740 KiB, \
                     6860 KiB; 27 % of a core\n";
        let flood = figures(FLOOD, flood).unwrap().values;
        assert_eq!((flood["quiet"], flood["share"], flood["core"]), (95.6, 99.0, 27.0));
        let reworded = "95.6 Mbit/s, 95.1 Mbit/s (99 %) beside 20000 SYNs; 27 percent of a core\n";
        let error = figures(FLOOD, reworded).unwrap_err().to_string();
        assert!(error.contains(" % of a core"), "{error}");
    }
}
