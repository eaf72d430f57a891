//! `lab try` runs one flow, for a quick look at a peer.

use super::Flow;
use crate::condition;
use crate::job::{Job, Want};
use crate::stats::percentile;
use crate::testbed::Testbed;

/// Runs one flow and prints its figures
#[derive(clap::Args)]
pub(crate) struct Try {
    /// Name of the peer (`lab list`)
    peer: String,
    /// Job as JSON: `{"load":"bulk"}`, `{"load":"transfer","bytes":1000000}` or
    /// `{"load":"messages","size":100,"rate":50,"count":500,"want":"each"}`. `want` may also be `ordered`, `newest` or
    /// `{"within":200}`. Frames of a video: `{"load":"frames","rate":30,"count":300,"within":150,"one_way":50}`
    job: String,
    /// Name of a condition (`lab list`), or a link in the syntax of `whimbrel link`. Repeat it for several links
    #[arg(long, default_value = "rate=4mbit,delay=25ms,loss=5%")]
    link: Vec<String>,
    /// Seconds that bulk data is sent for, or the most that another job may take
    #[arg(long, default_value_t = 10.0)]
    time: f64,
    /// Seed of the links
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Try {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let job = Job::from_json(&self.job)?;
        let plans: anyhow::Result<Vec<_>> = self.link.iter().map(|link| condition::link(link)).collect();
        let plans = plans?;
        let flow = tokio::runtime::Runtime::new()?.block_on(async {
            let testbed = Testbed::new(&plans, self.seed)?;
            Flow::run(&testbed, &self.peer, &job, self.time).await
        })?;
        print(&flow);
        match job {
            Job::Messages { count, want, .. } => print_messages(&flow, count, want),
            Job::Frames { count, within, .. } => print_messages(&flow, count, Want::Within(within)),
            Job::Bulk | Job::Transfer { .. } => {}
        }
        Ok(())
    }
}

fn print(flow: &Flow) {
    let (figures, sent) = (&flow.figures, &flow.sent);
    let seconds = |at: u64| at.saturating_sub(flow.started) as f64 / 1e9;
    let (first, last) = (seconds(figures.first), seconds(figures.last));
    let rate = figures.bytes as f64 * 8.0 / last.max(1e-9) / 1e6;
    let gap = figures.longest_gap(figures.first, figures.last);
    println!("sent {} bytes; {:.2} s of CPU time", sent.bytes, sent.cpu);
    println!("read {} bytes, the first after {first:.3} s, the last after {last:.3} s", figures.bytes);
    println!("     {rate:.3} Mbit/s, longest gap {gap:.2} s; {:.2} s of CPU time", figures.cpu);
}

fn print_messages(flow: &Flow, count: u64, want: Want) {
    let (figures, latencies) = (&flow.figures, flow.latencies());
    let at = |share| percentile(&latencies, share).unwrap_or_default();
    println!("     latency p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms", at(0.5), at(0.99), at(1.0));
    println!(
        "     {} sent, {} lost, {} duplicates",
        flow.sent.messages,
        figures.lost(count),
        figures.duplicates()
    );
    if let Want::Within(ms) = want {
        println!("     {} lost or late", figures.late(count, ms * 1_000_000));
    }
}
