//! The text of the metrics as it is served: made at most once in a while, however many clients ask for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::task::JoinError;

use super::Metrics;

/// How long a text is served before another one is made.
const KEPT: Duration = Duration::from_millis(100);
/// A text that took long to make is kept this many times as long, so that making texts takes a small part of one core
/// even with very many sessions.
const KEPT_TIMES: u32 = 10;
/// No text is kept longer than this, even if it took very long to make, for example because the machine was asleep.
const LONGEST_KEPT: Duration = Duration::from_secs(5);

/// The served text of some metrics. Clones share it.
#[derive(Clone)]
pub(super) struct Scrapes {
    metrics: Metrics,
    kept: Duration,
    last: Arc<Mutex<Option<Scrape>>>,
}

struct Scrape {
    text: Bytes,
    until: Instant,
}

impl Scrapes {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self::kept(metrics, KEPT)
    }

    fn kept(metrics: Metrics, kept: Duration) -> Self {
        Self { metrics, kept, last: Arc::default() }
    }

    /// Returns the text of the metrics, which may be as old as it is kept.
    ///
    /// # Errors
    /// A collector panicked.
    pub(super) async fn text(&self) -> Result<Bytes, JoinError> {
        let mut last = Arc::clone(&self.last).lock_owned().await;
        if let Some(scrape) = last.as_ref().filter(|scrape| Instant::now() < scrape.until) {
            return Ok(scrape.text.clone());
        }
        let (metrics, kept) = (self.metrics.clone(), self.kept);
        // Collecting visits every session, so it keeps off the threads that drive them. It holds the lock itself: a
        // client that goes away meanwhile does not let the next one begin another collection beside this one.
        let made = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            let text = Bytes::from(metrics.text());
            let kept = kept.max((began.elapsed() * KEPT_TIMES).min(LONGEST_KEPT));
            *last = Some(Scrape { text: text.clone(), until: Instant::now() + kept });
            text
        });
        made.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
    use prometheus_client::metrics::MetricType;
    use tokio::task::JoinSet;
    use whimbrel::{Config, Endpoint};

    use super::*;

    /// Longer than any test runs.
    const FOR_EVER: Duration = Duration::from_secs(3600);

    /// A metric whose value is the number of times that it was collected.
    #[derive(Clone, Debug, Default)]
    struct Collected(Arc<AtomicU32>);

    impl EncodeMetric for Collected {
        fn encode(&self, mut encoder: MetricEncoder<'_>) -> std::fmt::Result {
            encoder.encode_gauge(&(self.0.fetch_add(1, Ordering::SeqCst) + 1))
        }

        fn metric_type(&self) -> MetricType {
            MetricType::Gauge
        }
    }

    /// Metrics that count how often they are collected.
    async fn counted() -> (Metrics, Collected) {
        let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
        let (metrics, collected) = (Metrics::new(&endpoint, "test", ""), Collected::default());
        metrics.register("collected", "Collections", collected.clone());
        (metrics, collected)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn two_hundred_requests_collect_once() {
        let (metrics, collected) = counted().await;
        let scrapes = Scrapes::kept(metrics, FOR_EVER);
        let mut requests = JoinSet::new();
        for _ in 0..200 {
            let scrapes = scrapes.clone();
            requests.spawn(async move { scrapes.text().await.unwrap() });
        }
        for text in requests.join_all().await {
            let text = std::str::from_utf8(&text).unwrap();
            assert!(text.contains("\ncollected 1\n") && text.ends_with("# EOF\n"), "{text}");
        }
        assert_eq!(collected.0.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_text_that_is_no_longer_kept_is_made_anew() {
        let (metrics, collected) = counted().await;
        let scrapes = Scrapes::kept(metrics, Duration::from_millis(1));
        let mut last = scrapes.text().await.unwrap();
        while collected.0.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            last = scrapes.text().await.unwrap();
        }
        assert!(std::str::from_utf8(&last).unwrap().contains("\ncollected 3\n"));
    }

    /// A client that asks and leaves at once, again and again, must not collect each time.
    #[tokio::test]
    async fn a_collection_whose_client_left_serves_the_next_one() {
        let (metrics, collected) = counted().await;
        let scrapes = Scrapes::kept(metrics, FOR_EVER);
        for _ in 0..50 {
            tokio::select! {
                biased;
                _ = scrapes.text() => {}
                () = std::future::ready(()) => {}
            }
        }
        scrapes.text().await.unwrap();
        assert_eq!(collected.0.load(Ordering::SeqCst), 1);
    }
}
