//! Programs that know nothing of Whimbrel, through two proxies and an outage between them: curl, and a video over UDP.
//! Beside it, the same video without proxies over an equally bad link. Kernel TCP cannot go over an emulated link without
//! root, so that curl has nothing beside it: the laboratory measures that.

mod end;
mod fetch;
mod pair;
mod video;

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::time::sleep;
use whimbrel_cli::perf::monotonic_ns;

pub(crate) use end::End;
use fetch::Fetched;
use pair::Pair;
use video::{Video, Watched};

use crate::bad_link::{Link, limit_bps};
use crate::cargo;
use crate::findings::{Findings, Row, rate, size, time};
use crate::scale::Scale;
use crate::screen::{Screen, Unit};

/// The paper that the proxy goes back to had 4 Mbit/s and 5 % of loss. The round trip is 50 ms.
const LINK: &str = "rate=4mbit, delay=25ms, queue=100ms, loss=5%";
const RATE_BPS: f64 = 4e6;
const LOSS: f64 = 0.05;
/// The tasks on the screen.
const FILE: &str = "fetched";
/// Datagrams that were sent this long before the cut may still have been on their way.
const BEFORE_CUT: Duration = Duration::from_millis(300);
/// Datagrams that were sent this long after the link's return may have waited for it to be noticed.
const AFTER_MEND: Duration = Duration::from_secs(1);

/// The time during which nothing gets through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    cut_ns: u64,
    mended_ns: u64,
}

/// Runs the demo of the proxy.
pub(crate) async fn play(screen: &Screen, scale: &Scale, seed: u64) -> anyhow::Result<Findings> {
    let Scale { before, blackout, fetched, watched, .. } = *scale;
    screen.say(&format!(
        "Programs over 4 Mbit/s, 50 ms, 5 % loss each way, through two proxies and {} s of blackout",
        blackout.as_secs()
    ));
    let file = cargo::file(fetched, seed);
    let web = TcpListener::bind("127.0.0.1:0").await?;
    let (proxied, direct) = (Video::bind(watched).await?, Video::bind(watched).await?);
    let (web_at, video_at) = (web.local_addr()?, proxied.address()?);
    let pair = Pair::start(&[web_at, video_at], LINK, seed).await?;
    let beside = Link::open(direct.address()?, LINK, seed)?;
    screen.begin(FILE, "a file", file.len() as u64, Unit::Bytes);

    let weather = async {
        sleep(before).await;
        pair.link().cut()?;
        beside.cut()?;
        let cut_ns = monotonic_ns();
        sleep(blackout).await;
        pair.link().mend()?;
        beside.mend()?;
        Ok(Outage { cut_ns, mended_ns: monotonic_ns() })
    };
    let progress = |bytes| screen.progress(FILE, bytes, 0);
    let (outage, fetched, through, beside) = tokio::try_join!(
        weather,
        fetch::fetch(&web, &file, pair.socks(), &progress),
        proxied.through(pair.socks()),
        direct.over(beside.address()),
    )?;
    let shown = Shown { file, outage, fetched, through, beside };
    let findings = shown.judge(blackout);
    screen.end(FILE, &findings.rows[0].1);
    Ok(findings)
}

/// The data that was sent and the data that arrived.
struct Shown {
    file: Vec<u8>,
    outage: Outage,
    fetched: Fetched,
    through: Watched,
    beside: Watched,
}

impl Outage {
    /// Returns whether a datagram that was sent at this time had a link.
    fn spares(&self, sent_ns: u64) -> bool {
        let from = self.cut_ns.saturating_sub(BEFORE_CUT.as_nanos() as u64);
        !(from..self.mended_ns + AFTER_MEND.as_nanos() as u64).contains(&sent_ns)
    }
}

/// Returns the least share of so many datagrams that is what the loss leaves. It lies four standard deviations below the
/// mean, and a hundredth more for what is dropped in front of a full link.
fn least_share(datagrams: usize) -> f64 {
    1.0 - LOSS - 4.0 * (LOSS * (1.0 - LOSS) / datagrams.max(1) as f64).sqrt() - 0.01
}

impl Shown {
    fn judge(&self, blackout: Duration) -> Findings {
        let intact = self.fetched.sha256 == cargo::sha256(&self.file);
        let [through, beside] =
            [&self.through, &self.beside].map(|one| one.share(|at| self.outage.spares(at)));
        Findings {
            name: "proxy",
            figures: json!({
                "client": self.fetched.client,
                "file": {
                    "bytes": self.fetched.bytes,
                    "intact": intact,
                    "seconds": self.fetched.seconds,
                    "longest_gap_ms": self.fetched.longest_gap_s * 1e3,
                    "without_proxies": "not measured: TCP over an emulated link takes root",
                },
                "blackout_s": blackout.as_secs_f64(),
                "resumed_after_ms": self.resumed_after_s().map(|seconds| seconds * 1e3),
                "video": {
                    "through_proxies": { "share": through.0, "of": through.1, "twice": self.through.twice },
                    "without_proxies": { "share": beside.0, "of": beside.1, "twice": self.beside.twice },
                    "loss_leaves": 1.0 - LOSS,
                    "least_share": least_share(through.1),
                },
            }),
            rows: self.rows(intact, blackout, through, beside),
            missing: self.missing(intact, through),
        }
    }

    fn rows(
        &self,
        intact: bool,
        blackout: Duration,
        through: (f64, usize),
        beside: (f64, usize),
    ) -> Vec<Row> {
        let Fetched { client, bytes, seconds, longest_gap_s, .. } = &self.fetched;
        let word = if intact { "intact" } else { "BROKEN" };
        let goodput = rate(*bytes as f64 * 8.0 / (seconds - blackout.as_secs_f64()).max(1e-9));
        let limit = rate(limit_bps(RATE_BPS, LOSS) - video::BPS * (1.0 - LOSS));
        let resumed = self.resumed_after_s().map_or("it was over before".to_owned(), |seconds| {
            format!("went on {} after the link's return", time(seconds))
        });
        let percent = |(share, of): (f64, usize)| format!("{:.1} % of {of} datagrams", share * 100.0);
        vec![
            Row::new(
                format!("{} by {client}", size(self.file.len() as f64)),
                format!("{word} in {}: {goodput} beside the blackout", time(*seconds)),
                format!("the video leaves {limit}"),
            ),
            Row::new(
                format!("  through {} s of blackout", blackout.as_secs()),
                resumed,
                format!("longest pause {}", time(*longest_gap_s)),
            ),
            Row::new(
                "  without proxies",
                "not measured: TCP over such a link takes root",
                "docs/results/acm-table1.md",
            ),
            Row::new("video, 400 kbit/s over UDP", percent(through), "loss leaves 95 %"),
            Row::new("  without proxies", percent(beside), "alone on a link as bad"),
        ]
    }

    /// Returns when the file went on after the link's return. `None` if all of it had arrived.
    fn resumed_after_s(&self) -> Option<f64> {
        let first = self.fetched.reads.iter().find(|at| **at >= self.outage.mended_ns)?;
        Some((first - self.outage.mended_ns) as f64 / 1e9)
    }

    fn missing(&self, intact: bool, through: (f64, usize)) -> Vec<String> {
        let mut missing = Vec::new();
        let (bytes, all) = (self.fetched.bytes, self.file.len());
        match (bytes == all as u64, intact) {
            (true, true) => {}
            (true, false) => missing.push("the file: all bytes arrived, but not the ones sent".to_owned()),
            (false, _) => missing.push(format!("the file: {bytes} of {all} bytes arrived")),
        }
        let (share, of) = through;
        let (share, least) = (share * 100.0, least_share(of) * 100.0);
        if share < least {
            missing.push(format!(
                "the video: {share:.1} % of {of} datagrams arrived, at least {least:.1} % should"
            ));
        }
        if self.through.twice > 0 {
            missing.push(format!("the video: {} datagrams arrived twice", self.through.twice));
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_spares_what_was_sent_well_before_and_after() {
        let outage = Outage { cut_ns: 2_000_000_000, mended_ns: 5_000_000_000 };
        let spared = [1_600_000_000, 1_800_000_000, 5_500_000_000, 6_000_000_000].map(|at| outage.spares(at));
        assert_eq!(spared, [true, false, false, true]);
    }

    #[test]
    fn more_datagrams_tell_the_loss_more_exactly() {
        assert!((least_share(475) - 0.9).abs() < 1e-9, "{}", least_share(475));
        assert!(least_share(100) < least_share(1000) && least_share(1_000_000) < 0.94);
    }
}
