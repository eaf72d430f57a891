//! `lab run`: trials interleaved peer by peer, samples kept.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::experiment::{self, Case, Cost, Experiment, Options};
use crate::machine::Header;
use crate::report;
use crate::sample::{Record, Recorder, Sample};
use crate::{peer, testbed};

/// Trials of each case of a quick run.
const QUICK_TRIALS: u64 = 3;
/// Trials of each case of any other.
const TRIALS: u64 = 5;

/// Runs experiments and keeps their samples
#[derive(clap::Args)]
pub(crate) struct Run {
    /// Names of experiments, `all`, or `quick` (all of them, shortened, in under 5 minutes)
    #[arg(required = true)]
    experiments: Vec<String>,
    /// The first trial's dice; the next trials' follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Trials of each case, interleaved peer by peer [default: 5; of a quick run 3]
    #[arg(long)]
    trials: Option<u64>,
    /// Seconds of a trial [default: the experiment's own]
    #[arg(long)]
    time: Option<f64>,
    /// Only these peers [default: all]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Trials at a time over links of 4 Mbit/s, 8 % of a core each; of others as many as take as much
    #[arg(long, default_value_t = 16)]
    parallel: usize,
}

/// Where samples are kept.
pub(crate) fn results(quick: bool) -> PathBuf {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results"));
    if quick { folder.join("quick") } else { folder }
}

/// One trial to be made.
struct Task {
    experiment: &'static dyn Experiment,
    case: Case,
    trial: u64,
    seed: u64,
    seconds: f64,
}

impl Run {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        anyhow::ensure!(self.parallel > 0, "--parallel needs at least 1");
        anyhow::ensure!(self.trials != Some(0), "--trials needs at least 1");
        anyhow::ensure!(self.time.is_none_or(|time| time > 0.0), "--time needs seconds, more than 0");
        tokio::runtime::Runtime::new()?.block_on(self.everything())
    }

    fn quick(&self) -> bool {
        self.experiments.iter().any(|name| name == "quick")
    }

    fn options(&self) -> Options {
        Options { quick: self.quick(), seconds: self.time }
    }

    async fn everything(self) -> anyhow::Result<()> {
        let experiments = self.prepared(self.able(self.chosen()?))?;
        let (tasks, gaps) = self.tasks(&experiments)?;
        for gap in gaps {
            eprintln!("gap: {gap}");
        }
        let experiments: Vec<_> = experiments
            .into_iter()
            .filter(|one| tasks.iter().any(|task| task.experiment.name() == one.name()))
            .collect();
        anyhow::ensure!(!tasks.is_empty(), "nothing of this can be run here");
        let header = Header {
            seed: self.seed,
            trials: self.trials(),
            parallel: self.parallel,
            quick: self.quick(),
            ..Header::here()
        };
        let mut session = Session::new(&experiments, &tasks, &header, self.parallel)?;
        let options = Arc::new(self.options());
        let finished = session.go(tasks, &options, self.parallel).await?;
        session.conclude(finished)?;
        if !finished {
            bail!("interrupted");
        }
        for experiment in experiments {
            let record = Record::read(&results(header.quick), experiment.name())?;
            if let Some(record) = record {
                println!("\n{}\n", experiment.about().title);
                report::table::tables(experiment, &record).iter().for_each(|table| println!("{table}"));
            }
        }
        Ok(())
    }

    fn trials(&self) -> u64 {
        self.trials.unwrap_or(if self.quick() { QUICK_TRIALS } else { TRIALS })
    }

    fn chosen(&self) -> anyhow::Result<Vec<&'static dyn Experiment>> {
        let everything = ["all", "quick"];
        let known = |name: &String| {
            everything.contains(&name.as_str()) || experiment::all().iter().any(|one| one.name() == name)
        };
        if let Some(unknown) = self.experiments.iter().find(|name| !known(name)) {
            let names: Vec<_> = experiment::all().iter().map(|one| one.name()).collect();
            bail!(
                "there is no experiment `{unknown}`: there are {}, and `all` and `quick`",
                names.join(", ")
            );
        }
        let named = |one: &&&dyn Experiment| self.experiments.iter().any(|name| name == one.name());
        let alone = self.experiments.iter().all(|name| name == "quick");
        let all = alone || self.experiments.iter().any(|name| name == "all");
        Ok(experiment::all().iter().filter(|one| all || named(one)).copied().collect())
    }

    /// Without what needs links where none can be made.
    fn able(&self, mut experiments: Vec<&'static dyn Experiment>) -> Vec<&'static dyn Experiment> {
        if !experiments.iter().any(|one| one.needs_testbed()) {
            return experiments;
        }
        if let Some(missing) = testbed::missing() {
            let without: Vec<_> =
                experiments.iter().filter(|one| one.needs_testbed()).map(|one| one.name()).collect();
            eprintln!("gap: no links can be made here: {missing}; left out: {}", without.join(", "));
            experiments.retain(|one| !one.needs_testbed());
        }
        experiments
    }

    fn prepared(
        &self,
        experiments: Vec<&'static dyn Experiment>,
    ) -> anyhow::Result<Vec<&'static dyn Experiment>> {
        let mut ready = Vec::new();
        for one in experiments {
            match one.prepare() {
                Ok(()) => ready.push(one),
                Err(error) => eprintln!("gap: {} is left out: {error:#}", one.name()),
            }
        }
        Ok(ready)
    }

    /// All trials, in their order: heavy ones last, and trial by trial, so that a slow minute of the machine meets all peers
    /// alike. Beside them what cannot be had.
    fn tasks(&self, experiments: &[&'static dyn Experiment]) -> anyhow::Result<(Vec<Task>, Vec<String>)> {
        let options = self.options();
        let cases: Vec<_> = experiments
            .iter()
            .flat_map(|one| one.cases(&options).into_iter().map(move |case| (*one, case)))
            .collect();
        self.check_names(&cases)?;
        let missing: BTreeMap<_, _> =
            peer::all().iter().filter_map(|peer| Some((peer.name(), peer.missing()?))).collect();
        let wanted = |peer: &String| self.peers.is_empty() || self.peers.contains(peer);
        let here = |peer: &str| !missing.contains_key(peer);
        let mut tasks = Vec::new();
        for experiment in experiments {
            let mine: Vec<_> = cases
                .iter()
                .filter(|(one, case)| {
                    one.name() == experiment.name() && wanted(&case.peer) && here(&case.peer)
                })
                .collect();
            for trial in 1..=self.trials() {
                tasks.extend(mine.iter().map(|(experiment, case)| Task {
                    experiment: *experiment,
                    seconds: experiment.seconds(case, &options),
                    case: case.clone(),
                    trial,
                    seed: self.seed + trial - 1,
                }));
            }
        }
        tasks.sort_by_key(|task| task.case.cost == Cost::Heavy);
        let gaps = missing.iter().filter(|(name, _)| wanted(&(**name).to_owned()));
        Ok((tasks, gaps.map(|(name, reason)| format!("{name} is not here: {reason}")).collect()))
    }

    fn check_names(&self, cases: &[(&dyn Experiment, Case)]) -> anyhow::Result<()> {
        let mut names: Vec<&str> = peer::all().iter().map(|peer| peer.name()).collect();
        names.extend(cases.iter().map(|(_, case)| case.peer.as_str()));
        let unknown = self.peers.iter().find(|name| !names.contains(&name.as_str()));
        if let Some(unknown) = unknown {
            names.sort_unstable();
            names.dedup();
            bail!("there is no peer `{unknown}`: there are {}", names.join(", "));
        }
        Ok(())
    }
}

/// A run under way.
struct Session {
    recorders: BTreeMap<&'static str, (Recorder, usize)>,
    bar: ProgressBar,
    failed: usize,
    begun: Instant,
}

impl Session {
    fn new(
        experiments: &[&'static dyn Experiment],
        tasks: &[Task],
        header: &Header,
        parallel: usize,
    ) -> anyhow::Result<Self> {
        let mut recorders = BTreeMap::new();
        for one in experiments {
            let left = tasks.iter().filter(|task| task.experiment.name() == one.name()).count();
            recorders.insert(one.name(), (Recorder::new(&results(header.quick), one.name(), header)?, left));
        }
        let all = room_for(parallel);
        let room = |task: &Task| task.seconds * f64::from(task.case.cost.room(all)) / f64::from(all);
        let minutes = tasks.iter().map(room).sum::<f64>() / 60.0;
        eprintln!(
            "{} trials of {} experiments, {parallel} at a time: about {} minutes",
            tasks.len(),
            experiments.len(),
            minutes.ceil()
        );
        let bar = ProgressBar::new(tasks.len() as u64);
        bar.set_style(ProgressStyle::with_template(
            "{elapsed_precise} {bar:40} {pos}/{len}, {eta} left  {wide_msg}",
        )?);
        bar.enable_steady_tick(Duration::from_millis(500));
        Ok(Self { recorders, bar, failed: 0, begun: Instant::now() })
    }

    /// Makes all trials; whether it came to the end.
    async fn go(
        &mut self,
        tasks: Vec<Task>,
        options: &Arc<Options>,
        parallel: usize,
    ) -> anyhow::Result<bool> {
        let all = room_for(parallel);
        let room = Arc::new(Semaphore::new(all as usize));
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let (mut queue, mut under_way) = (tasks.into_iter().peekable(), JoinSet::new());
        while queue.peek().is_some() || !under_way.is_empty() {
            let needed = queue.peek().map(|task| task.case.cost.room(all));
            tokio::select! {
                biased;
                _ = interrupt.recv() => return Ok(stop(under_way).await),
                _ = terminate.recv() => return Ok(stop(under_way).await),
                Some(done) = under_way.join_next() => self.keep(done.context("a trial has panicked")?)?,
                permit = room.clone().acquire_many_owned(needed.unwrap_or(0)), if needed.is_some() => {
                    if let Some(task) = queue.next() {
                        self.bar.set_message(format!("{} {}", task.experiment.name(), task.case.peer));
                        under_way.spawn(trial(task, options.clone(), permit?));
                    }
                }
            }
        }
        Ok(true)
    }

    fn keep(&mut self, sample: Sample) -> anyhow::Result<()> {
        if let Err(reason) = &sample.result {
            self.failed += 1;
            let Sample { experiment, condition, peer, trial, .. } = &sample;
            let line = format!("failed: {experiment}, {condition}, {peer}, trial {trial}: {reason}");
            self.bar.suspend(|| eprintln!("{line}"));
        }
        self.bar.inc(1);
        let name = sample.experiment.clone();
        let (recorder, left) = self.recorders.get_mut(name.as_str()).context("an experiment has no file")?;
        recorder.add(sample)?;
        *left -= 1;
        if *left > 0 {
            return Ok(());
        }
        if !std::io::stderr().is_terminal() {
            eprintln!("{name} done after {} s", self.begun.elapsed().as_secs());
        }
        self.recorders.remove(name.as_str()).map_or(Ok(()), |(recorder, _)| recorder.finish())
    }

    fn conclude(&mut self, finished: bool) -> anyhow::Result<()> {
        self.bar.finish_and_clear();
        for (name, (recorder, _)) in &self.recorders {
            eprintln!("{name} was not finished: its samples so far are in {}", recorder.part().display());
        }
        let seconds = self.begun.elapsed().as_secs();
        let word = if finished { "done" } else { "stopped" };
        eprintln!("{word} after {} min {} s; {} trials failed", seconds / 60, seconds % 60, self.failed);
        Ok(())
    }
}

/// Dropping a trial ends its hosts and processes.
async fn stop(mut under_way: JoinSet<Sample>) -> bool {
    under_way.shutdown().await;
    false
}

/// Room for so many light trials.
fn room_for(parallel: usize) -> u32 {
    u32::try_from(parallel).unwrap_or(u32::MAX).saturating_mul(Cost::LIGHT.room(u32::MAX))
}

impl Cost {
    /// The room it takes of what there is.
    fn room(self, all: u32) -> u32 {
        self.share().map_or(all, |percent| percent.ceil() as u32).min(all)
    }
}

async fn trial(task: Task, options: Arc<Options>, _room: OwnedSemaphorePermit) -> Sample {
    let limit = Duration::from_secs_f64(task.seconds * 2.0 + 60.0);
    let Task { experiment, case, trial, seed, .. } = task;
    // A task of its own: a panic is a failed trial, and dropping the set ends it.
    let (mut alone, its) = (JoinSet::new(), case.clone());
    alone.spawn(async move { experiment.trial(&its, &options, seed).await });
    let result = match tokio::time::timeout(limit, alone.join_next()).await {
        Ok(Some(Ok(found))) => found.map_err(|error| format!("{error:#}")),
        Ok(_) => Err("it has panicked".to_owned()),
        Err(_) => Err(format!("not done within {} s", limit.as_secs())),
    };
    let Case { condition, peer, .. } = case;
    Sample { experiment: experiment.name().to_owned(), condition, peer, trial, seed, result }
}
