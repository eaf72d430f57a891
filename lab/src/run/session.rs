//! A run in progress: its trials, as many at a time as there is room for, and their samples.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use super::Task;
use crate::experiment::{Case, Cost, Experiment, Options};
use crate::machine::Header;
use crate::sample::{Recorder, Sample};
use crate::shelf::Shelf;
use crate::testbed::lateness;

/// A run in progress.
pub(super) struct Session {
    recorders: BTreeMap<&'static str, (Recorder, usize)>,
    bar: ProgressBar,
    failed: usize,
    begun: Instant,
}

impl Session {
    /// Begins a run, or goes on with one that was interrupted. Returns the trials that are left, too.
    pub(super) fn new(
        experiments: &[(&'static dyn Experiment, Header)],
        mut tasks: Vec<Task>,
        shelf: Shelf,
        resume: bool,
    ) -> anyhow::Result<(Self, Vec<Task>)> {
        let (mut recorders, mut parallel) = (BTreeMap::new(), 1);
        for (one, header) in experiments {
            let (name, folder) = (one.name(), shelf.folder());
            let (recorder, done) = if resume {
                Recorder::resume(&folder, name, header)?
            } else {
                (Recorder::new(&folder, name, header)?, Vec::new())
            };
            let is_done = |task: &Task| {
                done.iter().any(|sample| {
                    (&sample.condition, &sample.peer, sample.trial)
                        == (&task.case.condition, &task.case.peer, task.trial)
                })
            };
            tasks.retain(|task| task.experiment.name() != name || !is_done(task));
            let left = tasks.iter().filter(|task| task.experiment.name() == name).count();
            recorders.insert(name, (recorder, left));
            parallel = header.parallel;
        }
        let minutes = seconds(&tasks, parallel) / 60.0;
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
        Ok((Self { recorders, bar, failed: 0, begun: Instant::now() }, tasks))
    }

    /// Runs all trials. Returns false if it was interrupted.
    pub(super) async fn go(
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
            let needed = queue.peek().map(|task| task.cost.room(all));
            tokio::select! {
                biased;
                _ = interrupt.recv() => return Ok(stop(under_way).await),
                _ = terminate.recv() => return Ok(stop(under_way).await),
                Some(done) = under_way.join_next() => self.keep(done.context("a trial panicked")?)?,
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
        let Some((recorder, _)) = self.recorders.remove(name.as_str()) else { return Ok(()) };
        let part = recorder.part().to_owned();
        if !recorder.finish()? {
            let part = part.display();
            self.bar.suspend(|| {
                eprintln!("all trials of {name} failed: the record stays, and their samples are in {part}")
            });
        }
        Ok(())
    }

    pub(super) fn conclude(&mut self, finished: bool) -> anyhow::Result<()> {
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

/// Drops the trials in progress, which ends their hosts and processes.
async fn stop(mut under_way: JoinSet<Sample>) -> bool {
    under_way.shutdown().await;
    false
}

/// Estimates how long the tasks take, in seconds, with `parallel` light trials at a time.
pub(super) fn seconds(tasks: &[Task], parallel: usize) -> f64 {
    let all = room_for(parallel);
    tasks.iter().map(|task| task.seconds * f64::from(task.cost.room(all)) / f64::from(all)).sum()
}

/// Returns the room that this many light trials need.
fn room_for(parallel: usize) -> u32 {
    u32::try_from(parallel).unwrap_or(u32::MAX).saturating_mul(Cost::LIGHT.room(u32::MAX))
}

impl Cost {
    /// Returns how much of `all` the room a trial needs.
    fn room(self, all: u32) -> u32 {
        self.share().map_or(all, |percent| percent.ceil() as u32).min(all)
    }
}

async fn trial(task: Task, options: Arc<Options>, _room: OwnedSemaphorePermit) -> Sample {
    let limit = Duration::from_secs_f64(task.seconds * 2.0 + 60.0);
    let Task { experiment, case, trial, seed, .. } = task;
    // Each trial is a task of its own. A panic fails that trial only, and dropping the set ends it.
    let (mut alone, its) = (JoinSet::new(), case.clone());
    alone.spawn(lateness::during(async move { experiment.trial(&its, &options, seed).await }));
    let result = match tokio::time::timeout(limit, alone.join_next()).await {
        Ok(Some(Ok((found, late)))) => {
            found.map(|metrics| metrics.noting(&late)).map_err(|error| format!("{error:#}"))
        }
        Ok(_) => Err("the trial panicked".to_owned()),
        Err(_) => Err(format!("not done within {} s", limit.as_secs())),
    };
    let Case { condition, peer, .. } = case;
    Sample { experiment: experiment.name().to_owned(), condition, peer, trial, seed, result }
}
