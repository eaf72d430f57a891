//! The far end as seen by the near end: a child process that reports.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::Notify;
use tokio::time::timeout;
use whimbrel::Url;

use crate::report::{Report, Word};
use crate::screen::Screen;

/// How long the far end may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long its report may take after the close.
const REPORT_WITHIN: Duration = Duration::from_secs(10);

/// A running far end. It is killed when dropped; [`FarEnd::stop`] lets it finish.
pub(crate) struct FarEnd {
    child: Child,
    url: Url,
    board: Arc<Board>,
}

/// The place where its reports are stored.
#[derive(Default)]
struct Board {
    news: Mutex<News>,
    changed: Notify,
}

#[derive(Default)]
struct News {
    reports: BTreeMap<String, Report>,
    /// Whether it has ended, so that no further report follows.
    over: bool,
}

impl FarEnd {
    /// Starts this program a second time and waits until it listens.
    pub(crate) async fn start(screen: &Arc<Screen>) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--far")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for this process alone: the far end stops when its input ends.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the far end")?;
        let output = child.stdout.take().context("the far end has no output")?;
        let mut lines = BufReader::new(output).lines();
        let first = timeout(PATIENCE, lines.next_line()).await.context("the far end does not start")??;
        let url = match serde_json::from_str(&first.unwrap_or_default()) {
            Ok(Word::Listening { url }) => url.parse()?,
            _ => bail!("the far end does not say where it listens"),
        };
        let board = Arc::<Board>::default();
        tokio::spawn(listen(lines, Arc::clone(&board), Arc::clone(screen)));
        Ok(Self { child, url, board })
    }

    /// Returns its address, without a link in between.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Waits for the report of a lane, which arrives once the lane is closed.
    pub(crate) async fn report(&self, lane: &str) -> anyhow::Result<Report> {
        let report = timeout(REPORT_WITHIN, self.board.wait(lane)).await;
        let report = report.with_context(|| format!("no report of {lane}"))??;
        match report.error {
            None => Ok(report),
            Some(error) => bail!("the far end of {lane}: {error}"),
        }
    }

    /// Stops the far end.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let ended = timeout(PATIENCE, self.child.wait()).await.context("the far end does not end")??;
        anyhow::ensure!(ended.success(), "the far end failed: {ended}");
        Ok(())
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait(&self, lane: &str) -> anyhow::Result<Report> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let mut news = self.lock();
                if let Some(report) = news.reports.remove(lane) {
                    return Ok(report);
                }
                anyhow::ensure!(!news.over, "the far end has died");
            }
            changed.await;
        }
    }
}

async fn listen(mut lines: Lines<BufReader<ChildStdout>>, board: Arc<Board>, screen: Arc<Screen>) {
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(Word::Progress { lane, bytes, messages }) => screen.progress(&lane, bytes, messages),
            Ok(Word::Report(report)) => {
                board.lock().reports.insert(report.lane.clone(), report);
                board.changed.notify_waiters();
            }
            Ok(Word::Listening { .. }) | Err(_) => break,
        }
    }
    board.lock().over = true;
    board.changed.notify_waiters();
}
