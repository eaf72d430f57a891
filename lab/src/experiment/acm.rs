//! The scenario of ACM NetProxy's Tables I and II: four flows at once over a lossy link.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::measure::PAYLOAD_SHARE;
use super::programs::{self, Fetched, Request, Server, fetch, reach};
use super::{Case, Cost, Options};
use crate::carrier::{self, Carrier, HYSTERIA, OURS, Place};
use crate::condition;
use crate::program::{Stream, Watched};
use crate::sample::Metrics;
use crate::testbed::{Side, Testbed};

/// Conditions, and the share of packets that they lose.
const LINKS: [(&str, f64); 3] = [("tactical-5", 0.05), ("tactical-10", 0.1), ("tactical-15", 0.15)];
const PEERS: [&str; 4] = ["tcp-cubic", "tcp-bbr", HYSTERIA, OURS];
const QUICK_PEERS: [&str; 1] = [OURS];
/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 120.0;
const QUICK_SPAN: f64 = 6.0;
const RATE: f64 = 4e6;
/// Objects: bytes, seconds between two requests, and seconds until the first. A request that is not complete when the
/// next is due has failed. Each video begins 5 s before an image.
const IMAGE: (u64, f64, f64) = (150_000, 10.0, 5.0);
const VIDEO: (u64, f64, f64) = (3_000_000, 40.0, 0.0);
/// Datagrams: payload bytes, and datagrams a second. The first is 400 kbit/s of video, the others are CoT messages.
const DATAGRAMS: [(usize, f64); 3] = [(1000, 50.0), (1024, 6.0), (4096, 0.25)];
/// The fewest datagrams of a slow stream. In a short run it would have one, and if that is lost, it seems never to begin.
const FEWEST: u64 = 4;
/// Headers of IP and UDP, and of IP in each further fragment.
const HEADS: (usize, usize) = (28, 20);
/// Payload of IP in a full packet.
const FRAGMENT: usize = 1480;

/// Text about the scenario that both tables share.
pub(super) const MEASURED: &str = "Four flows at once go from the server's host to the caller's, as in the paper, but more often, for 120 s. \
     curl asks for an image of 150 KB every 10 s and for a video of 3 MB every 40 s. A request that is not complete when the next is due is \
     given up and has failed. The paper's were a minute and ten apart, and it does not say when one failed. Two programs ask for datagrams. \
     The video has 400 kbit/s, 50 datagrams of 1,000 bytes a second. Of CoT messages there are 6 of 1 KB a second, and one of 4 KB every 4 s. With a pair of proxies, \
     curl and these programs use SOCKS5, and the session stands before the measurement. Otherwise they connect to the server, whose TCP \
     has CUBIC or BBR, and UDP goes as it is. The rate is bytes that arrived over the time that curl took, with failed requests.";

pub(super) fn cases(options: &Options) -> Vec<Case> {
    let links = LINKS.iter().filter(|(name, _)| !options.quick || *name == LINKS[0].0);
    let peers = if options.quick { &QUICK_PEERS[..] } else { &PEERS };
    links.flat_map(|(link, _)| peers.iter().map(|peer| Case::new(*link, *peer, Cost::LIGHT))).collect()
}

pub(super) fn conditions() -> Vec<String> {
    LINKS.map(|(name, _)| name.to_owned()).into()
}

pub(super) fn links() -> Vec<(String, String)> {
    LINKS.iter().flat_map(|(name, _)| super::measure::words(name)).collect()
}

pub(super) fn seconds(options: &Options) -> f64 {
    options.span(SPAN, QUICK_SPAN) + 4.0
}

/// Returns what loss and the other flows leave: the rate of a video in KB/s, and the percentages of datagrams that arrive.
/// The video shares the link with the datagrams and one image.
pub(super) fn limit(condition: &str, metric: &str) -> Option<f64> {
    let (_, loss) = LINKS.iter().find(|(name, _)| *name == condition)?;
    let kept = |(size, _): (usize, f64)| (1.0 - loss).powi(fragments(size));
    let [video, small, large] = DATAGRAMS;
    match metric {
        "video_kbs" => {
            let others: f64 = DATAGRAMS.iter().map(|(size, rate)| rate * on_link(*size) * 8.0).sum();
            let left = (RATE - others) * (1.0 - loss) * PAYLOAD_SHARE;
            let (own, both) = (VIDEO.0 as f64, (VIDEO.0 + IMAGE.0) as f64);
            Some(left / 8e3 * own / both)
        }
        "udp_share" => Some(100.0 * kept(video)),
        "cot_share" => {
            let arrived: f64 = [small, large].map(|stream| stream.1 * kept(stream)).iter().sum();
            Some(100.0 * arrived / (small.1 + large.1))
        }
        _ => None,
    }
}

fn fragments(size: usize) -> i32 {
    (size + HEADS.0 - HEADS.1).div_ceil(FRAGMENT) as i32
}

/// Returns the IP bytes of a datagram.
fn on_link(size: usize) -> f64 {
    (size + HEADS.0) as f64 + f64::from(fragments(size) - 1) * HEADS.1 as f64
}

/// Runs the scenario once.
pub(super) async fn trial(case: &Case, options: &Options, seed: u64) -> anyhow::Result<Metrics> {
    let span = options.span(SPAN, QUICK_SPAN);
    let testbed = Testbed::new(&[condition::link(&case.condition)?], seed)?;
    let at = testbed.addresses(Side::Server)[0];
    let (server, text) = (Side::Server, at.to_string());
    let mut web = vec!["web", "--at", &text];
    web.extend(carrier::congestion(&case.peer).iter().flat_map(|name| ["--congestion", name]));
    let web = Server::start(&testbed, server, &web).await?;
    let source = Server::start(&testbed, server, &["source", "--at", &text]).await?;
    let echo = Server::echo(&testbed, server, at, 1, None).await?;
    let place = Place { near: Side::Caller, far: server, at, forwarded: None };
    let carrier = Carrier::start(&testbed, &case.peer, place).await?;
    let socks = carrier.socks();
    reach(&testbed, &carrier, echo.places[0], socks).await?;

    let start = Instant::now();
    let request = |bytes, every| Request {
        from: web.places[0],
        path: None,
        bytes,
        patience: Duration::from_secs_f64(every),
        socks,
    };
    let (image, video) = (request(IMAGE.0, IMAGE.1), request(VIDEO.0, VIDEO.1));
    let all = tokio::try_join!(
        fetch_all(&testbed, &image, (IMAGE.2, span), start),
        fetch_all(&testbed, &video, (VIDEO.2, span), start),
        watch(&testbed, source.places[0], socks, span),
    );
    let (images, videos, watched) = all.map_err(|error| carrier.explain(error))?;
    let mut metrics = Metrics::default();
    note_requests(&mut metrics, ["image_kbs", "image_done"], &images);
    note_requests(&mut metrics, ["video_kbs", "video_done"], &videos);
    note_datagrams(&mut metrics, &watched);
    let down = testbed.report(0).down;
    metrics.set("queue_drops", 100.0 * down.queue_drops as f64 / (down.offered as f64).max(1.0));
    metrics.set("queue_p95_ms", down.queue_delay.quantile(0.95).as_secs_f64() * 1e3);
    Ok(metrics)
}

/// Asks for the same object again and again, from the first moment of `times` until the last. Requests do not overlap.
async fn fetch_all(
    testbed: &Testbed,
    request: &Request<'_>,
    times: (f64, f64),
    start: Instant,
) -> anyhow::Result<Vec<Fetched>> {
    let (mut all, mut next) = (Vec::new(), start + Duration::from_secs_f64(times.0));
    let end = start + Duration::from_secs_f64(times.1);
    while next < end {
        sleep_until(next).await;
        all.push(fetch(testbed, request).await?);
        next += request.patience;
    }
    Ok(all)
}

async fn watch(
    testbed: &Testbed,
    source: std::net::SocketAddr,
    socks: Option<&str>,
    span: f64,
) -> anyhow::Result<Vec<Watched>> {
    let streams = DATAGRAMS.map(|(size, rate)| Stream { size, rate, count: (span * rate) as u64 });
    let streams: Vec<_> =
        streams.into_iter().filter(|stream| stream.rate >= 1.0 || stream.count >= FEWEST).collect();
    let (to, streams) = (source.to_string(), serde_json::to_string(&streams)?);
    let mut words = vec!["watch", "--to", &to, "--streams", &streams];
    words.extend(socks.iter().flat_map(|socks| ["--socks", socks]));
    let mut watch = programs::run(testbed, Side::Caller, &words)?;
    let within = Duration::from_secs_f64(span) + programs::START;
    Ok(serde_json::from_str(&watch.next_within("watched", within).await?)?)
}

fn note_requests(metrics: &mut Metrics, [rate, done]: [&str; 2], all: &[Fetched]) {
    let seconds: f64 = all.iter().map(|one| one.seconds).sum();
    let bytes: u64 = all.iter().map(|one| one.bytes).sum();
    let complete = all.iter().filter(|one| one.complete).count();
    metrics.set(rate, bytes as f64 / seconds / 1e3);
    metrics.set(done, 100.0 * complete as f64 / all.len() as f64);
}

fn note_datagrams(metrics: &mut Metrics, watched: &[Watched]) {
    for (names, streams) in [
        (["udp_kbs", "udp_share", "udp_p95_ms"], &watched[..1]),
        (["cot_kbs", "cot_share", "cot_p95_ms"], &watched[1..]),
    ] {
        let (mut rate, mut sent, mut arrived) = (0.0, 0, 0);
        for Watched { stream, arrived: some, .. } in streams {
            rate += *some as f64 * stream.size as f64 / stream.lasting().as_secs_f64() / 1e3;
            sent += stream.count;
            arrived += some;
        }
        metrics.set(names[0], rate);
        metrics.set(names[1], 100.0 * arrived as f64 / sent as f64);
        metrics.set(names[2], streams.iter().map(|one| one.p95_ms).fold(0.0, f64::max));
    }
    metrics.set("twice", watched.iter().map(|one| one.twice as f64).sum());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_the_rate_without_loss_headers_and_the_other_flows() {
        // The datagrams take 0.411, 0.050 and 0.008 Mbit/s of 4. Of the rest, 95 % arrive and 1,448 of 1,500 are payload.
        let left: f64 = (4e6 - 411_200.0 - 50_496.0 - 8328.0) * 0.95 * 1448.0 / 1500.0;
        assert!((limit("tactical-5", "video_kbs").unwrap() - left / 8e3 * 3.0 / 3.15).abs() < 0.01);
        assert!((limit("tactical-5", "udp_share").unwrap() - 95.0).abs() < 1e-9);
        // One of 25 messages has three fragments.
        let cot = 100.0 * (24.0 * 0.95 + 0.95f64.powi(3)) / 25.0;
        assert!((limit("tactical-5", "cot_share").unwrap() - cot).abs() < 1e-9);
    }

    #[test]
    fn a_request_that_was_given_up_counts_in_the_rate_and_against_the_share() {
        let mut metrics = Metrics::default();
        let all = [(100_000, 1.0, true), (20_000, 5.0, false)];
        let all = all.map(|(bytes, seconds, complete)| Fetched { bytes, seconds, complete });
        note_requests(&mut metrics, ["rate", "done"], &all);
        assert_eq!((metrics.values["rate"], metrics.values["done"]), (20.0, 50.0));
    }
}
