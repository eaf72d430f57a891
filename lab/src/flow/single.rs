//! `lab try`: one flow over a link, to look at a peer.

use super::Flow;
use crate::condition;
use crate::job::{Job, Want};
use crate::stats::percentile;
use crate::testbed::Testbed;

/// One flow over a link
#[derive(clap::Args)]
pub(crate) struct Try {
    /// Which peer
    peer: String,
    /// What it is to do, as JSON: `{"load":"bulk"}`, `{"load":"transfer","bytes":1000000}`,
    /// `{"load":"messages","size":100,"rate":50,"count":500,"want":"each"}` (or `ordered`, `newest`, `{"within":200}`)
    job: String,
    /// The link: the name of a condition (`lab list`), or the words of `whimbrel link`; given again, one more
    #[arg(long, default_value = "rate=4mbit,delay=25ms,loss=5%")]
    link: Vec<String>,
    /// Seconds, or at most so many
    #[arg(long, default_value_t = 10.0)]
    time: f64,
    /// The links' dice
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
        if let Job::Messages { count, want, .. } = job {
            print_messages(&flow, count, want);
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
    println!("sent {} bytes; {:.2} s of processor", sent.bytes, sent.cpu);
    println!("read {} bytes, the first after {first:.3} s, the last after {last:.3} s", figures.bytes);
    println!("     {rate:.3} Mbit/s, nothing for {gap:.2} s at most; {:.2} s of processor", figures.cpu);
}

fn print_messages(flow: &Flow, count: u64, want: Want) {
    let (figures, latencies) = (&flow.figures, flow.latencies());
    let at = |share| percentile(&latencies, share).unwrap_or_default();
    println!("     half within {:.1} ms, 99 % {:.1} ms, all {:.1} ms", at(0.5), at(0.99), at(1.0));
    println!(
        "     of {} sent {} lost, {} twice",
        flow.sent.messages,
        figures.lost(count),
        figures.duplicates()
    );
    if let Want::Within(ms) = want {
        println!("     {} lost or late", figures.late(count, ms * 1_000_000));
    }
}
