//! `whimbrel top`: what the services of this host do, live in the terminal.

mod draw;
mod find;
mod model;
mod terminal;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, stdin, stdout};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};
use whimbrel_service::{Request, StatusReport, ask};

use crate::process::{Flavour, Misused, RuntimeOptions, interrupted};
use model::Model;
use terminal::{Did, Screen, deeds};

/// How often each service is asked.
const EVERY: Duration = Duration::from_secs(1);
/// How often services that started meanwhile are looked for.
const FIND_EVERY: Duration = Duration::from_secs(2);

/// Shows what running `whimbrel` commands do, live in the terminal.
///
/// Brokers, proxies, `perf serve` and `cat listen` are shown, and other services of the crate whimbrel-service, if they were started with
/// --control PATH by the same user. Keys: 1 overview, 2 channels and flows, 3 subscribers, 4 paths, 5 brokers, s sorts by the next column,
/// r reverses, arrows scroll, Ctrl-L draws again, q quits. A broker with slow subscribers, and whatever is out of reach, is marked.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  whimbrel broker run --control /run/user/1000/broker.sock &
  whimbrel top                                  # whatever runs here (Linux)
  whimbrel top /run/user/1000/broker.sock       # this one
  NO_COLOR=1 whimbrel top                       # without colours

For a program, or without a terminal: `whimbrel status CONTROL --json`, with --watch once a second.")]
pub struct TopCommand {
    /// The paths of control sockets [default: those of this user that are found].
    #[arg(value_name = "CONTROL")]
    control: Vec<PathBuf>,
}

/// The news of a service.
type News = (PathBuf, Duration, Result<StatusReport, String>);

impl TopCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// There is no terminal, or a signal came.
    pub fn run(self) -> anyhow::Result<()> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return Err(Misused(
                "this is not a terminal: use `whimbrel status CONTROL`, with --json for a program and --watch for once a second".to_owned(),
            )
            .into());
        }
        RuntimeOptions { runtime: Some(Flavour::Current) }.block_on(self.show())
    }

    async fn show(self) -> anyhow::Result<()> {
        let interrupted = interrupted()?;
        tokio::pin!(interrupted);
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let mut watched = Watched::new(self.control);
        let mut model = Model::new();
        let mut screen = Screen::open().context("cannot use the terminal")?;
        let mut deeds = deeds();
        let mut finding = interval(FIND_EVERY);
        finding.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                signal = &mut interrupted => return Err(signal.into()),
                did = deeds.recv() => match did {
                    Some(Did::Wish(wish)) => model.handle(wish),
                    Some(Did::Resized) => {}
                    Some(Did::Redraw) => screen.draw_anew().context("cannot draw")?,
                    // The terminal is gone.
                    Some(Did::Quit) | None => return Ok(()),
                },
                Some((control, at, looked)) = watched.news.recv() => {
                    if looked.is_err() && watched.forgets(&control) {
                        model.forget(&control);
                    } else {
                        model.take(&control, at, looked);
                    }
                }
                _ = finding.tick() => watched.find(&mut model),
            }
            screen.0.draw(|frame| draw::draw(frame, &model, colours)).context("cannot draw")?;
        }
    }
}

/// The services that are asked.
struct Watched {
    /// Those that were named; if there are none, what is found.
    named: Vec<PathBuf>,
    asked: BTreeSet<PathBuf>,
    began: Instant,
    tell: mpsc::Sender<News>,
    news: mpsc::Receiver<News>,
}

impl Watched {
    fn new(named: Vec<PathBuf>) -> Self {
        let (tell, news) = mpsc::channel(16);
        Self { named, asked: BTreeSet::new(), began: Instant::now(), tell, news }
    }

    /// Begins to ask those that are not asked yet.
    fn find(&mut self, model: &mut Model) {
        let are_found = self.named.is_empty();
        let controls = if are_found { find::control_sockets() } else { self.named.iter().cloned().collect() };
        for control in controls {
            if self.asked.insert(control.clone()) {
                model.watch(&control);
                tokio::spawn(ask_on(control, are_found, self.began, self.tell.clone()));
            }
        }
    }

    /// Forgets a service that ended, unless it was named. If it starts again, it is found again.
    fn forgets(&mut self, control: &Path) -> bool {
        self.named.is_empty() && self.asked.remove(control)
    }
}

/// Polls a service. A discovered service is polled until it stops answering.
async fn ask_on(control: PathBuf, is_found: bool, began: Instant, tell: mpsc::Sender<News>) {
    loop {
        let looked = match ask(&control, Request::Status).await {
            Ok(status) => serde_json::from_value(status).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let has_ended = is_found && looked.is_err();
        if tell.send((control.clone(), began.elapsed(), looked)).await.is_err() || has_ended {
            return;
        }
        sleep(EVERY).await;
    }
}
