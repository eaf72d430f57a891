//! `lab run` runs trials, interleaved peer by peer, and keeps their samples.

mod session;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::bail;

use self::session::Session;
use crate::experiment::{self, Case, Cost, Experiment, Options};
use crate::machine::{Header, PeerNote};
use crate::report;
use crate::sample::Record;
use crate::shelf::Shelf;
use crate::stats::ENOUGH;
use crate::{carrier, peer, testbed};

/// Trials of each case in a quick run.
const QUICK_TRIALS: u64 = 2;
/// Trials of each case in any other run.
const TRIALS: u64 = ENOUGH as u64;

/// Runs experiments and keeps their samples
#[derive(clap::Args, Default)]
pub(crate) struct Run {
    /// Names of experiments, or `all`. `quick` shortens them; alone, it runs all of them in under 5 minutes
    #[arg(required = true)]
    experiments: Vec<String>,
    /// Seed of the first trial. Each further trial takes the next number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Trials of each case, interleaved peer by peer [default: 5, or 2 in a quick run]
    #[arg(long)]
    trials: Option<u64>,
    /// Seconds of a trial [default: the experiment's own]
    #[arg(long)]
    time: Option<f64>,
    /// Only these peers, separated by commas [default: all]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Trials over links of 4 Mbit/s to run at a time. Each of them takes 8 % of a core, and others count by what they
    /// take. Unless given, 6 per core
    #[arg(long, default_value_t = parallel())]
    parallel: usize,
    /// Goes on with a run of the same command that was interrupted: its trials are not run again
    #[arg(long)]
    resume: bool,
    /// Lets a run replace the whole record even if it has only some peers, fewer than 5 trials or another time. The
    /// report shows the rows that it lacks as gaps
    #[arg(long)]
    replace: bool,
}

/// Returns the default for `--parallel`. Up to a dozen trials on two cores change no figure.
fn parallel() -> usize {
    6 * std::thread::available_parallelism().map_or(1, usize::from)
}

/// A trial to run.
struct Task {
    experiment: &'static dyn Experiment,
    case: Case,
    trial: u64,
    seed: u64,
    seconds: f64,
    cost: Cost,
}

impl Run {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        anyhow::ensure!(self.parallel > 0, "--parallel must be at least 1");
        anyhow::ensure!(self.trials != Some(0), "--trials must be at least 1");
        anyhow::ensure!(self.time.is_none_or(|time| time > 0.0), "--time must be more than 0 seconds");
        let runtime = tokio::runtime::Runtime::new()?;
        let done = runtime.block_on(self.everything());
        // After Ctrl-C, blocking work is not waited for. It ends with this process.
        runtime.shutdown_background();
        done
    }

    fn quick(&self) -> bool {
        self.experiments.iter().any(|name| name == "quick")
    }

    /// Returns where the samples go. A run that is not whole must not replace one that is.
    fn shelf(&self) -> Shelf {
        let part = !self.peers.is_empty() || self.trials() < TRIALS || self.time.is_some();
        match self.quick() {
            true => Shelf::Quick,
            false if part && !self.replace => Shelf::Part,
            false => Shelf::Whole,
        }
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
        self.say_what_time_leaves(&experiments);
        let shelf = self.shelf();
        if shelf == Shelf::Part {
            eprintln!(
                "not a whole run: its samples go to {} (with `--replace`, they replace the record)",
                shelf.folder().display()
            );
        }
        let header = Header {
            seed: self.seed,
            trials: self.trials(),
            parallel: self.parallel,
            quick: self.quick(),
            ..Header::here()
        };
        let options = Arc::new(self.options());
        let headers: Vec<_> = experiments.iter().map(|one| (*one, self.header_of(*one, &header))).collect();
        let (mut session, tasks) = Session::new(&headers, tasks, shelf, self.resume)?;
        let finished = session.go(tasks, &options, self.parallel).await?;
        session.conclude(finished)?;
        if !finished {
            bail!("interrupted");
        }
        for (experiment, header) in headers {
            let record = Record::read(&shelf.folder(), experiment.name())?;
            if let Some(record) = record.filter(|record| record.header.is_of(&header)) {
                println!("\n{}\n", experiment.about().title);
                report::table::tables(experiment, &record).iter().for_each(|table| println!("{table}"));
                experiment.findings(&record).iter().for_each(|finding| println!("{finding}"));
                println!("{}", report::late::sentences(experiment, &record));
            }
        }
        Ok(())
    }

    fn say_what_time_leaves(&self, experiments: &[&'static dyn Experiment]) {
        let untimed = experiments.iter().filter_map(|one| Some((one.name(), one.untimed()?)));
        for (name, what) in untimed.filter(|_| self.time.is_some()) {
            eprintln!("--time does not affect {name}: {what}");
        }
    }

    /// Returns the trials of each case of an experiment.
    fn trials_of(&self, experiment: &dyn Experiment) -> u64 {
        let own = experiment.trials(&self.options()).filter(|_| self.trials.is_none());
        own.unwrap_or_else(|| self.trials())
    }

    fn header_of(&self, experiment: &dyn Experiment, header: &Header) -> Header {
        Header { trials: self.trials_of(experiment), ..header.clone() }
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
            bail!("there is no experiment `{unknown}`; choose from {}, `all` and `quick`", names.join(", "));
        }
        let named = |one: &&&dyn Experiment| self.experiments.iter().any(|name| name == one.name());
        let alone = self.experiments.iter().all(|name| name == "quick");
        let all = alone || self.experiments.iter().any(|name| name == "all");
        Ok(experiment::all().iter().filter(|one| all || named(one)).copied().collect())
    }

    /// Leaves out the experiments that need links if none can be made here.
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

    /// Returns all trials in their order, and a message for each peer that is missing here. Heavy trials come last.
    /// Each experiment goes trial by trial, so that a slow minute of the machine affects all peers alike.
    fn tasks(&self, experiments: &[&'static dyn Experiment]) -> anyhow::Result<(Vec<Task>, Vec<String>)> {
        let cases = self.cases(experiments);
        self.check_names(&cases)?;
        let missing = missing(&cases);
        let tasks = self.tasks_of(experiments, &cases, |peer| !missing.contains_key(peer));
        let gaps = missing.iter().filter(|(name, _)| self.wants(name));
        Ok((tasks, gaps.map(|(name, reason)| format!("{name} is not here: {reason}")).collect()))
    }

    fn cases(&self, experiments: &[&'static dyn Experiment]) -> Vec<(&'static dyn Experiment, Case)> {
        let options = self.options();
        let of = |one: &&'static dyn Experiment| {
            let one = *one;
            one.cases(&options).into_iter().map(move |case| (one, case))
        };
        experiments.iter().flat_map(of).collect()
    }

    fn wants(&self, peer: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|wanted| wanted == peer)
    }

    /// Returns the trials of these cases whose peers are `here`.
    fn tasks_of(
        &self,
        experiments: &[&'static dyn Experiment],
        cases: &[(&'static dyn Experiment, Case)],
        here: impl Fn(&str) -> bool,
    ) -> Vec<Task> {
        let options = self.options();
        let mut tasks = Vec::new();
        for experiment in experiments {
            let mine: Vec<_> = cases
                .iter()
                .filter(|(one, case)| {
                    one.name() == experiment.name() && self.wants(&case.peer) && here(&case.peer)
                })
                .collect();
            for trial in 1..=self.trials_of(*experiment) {
                let seed = self.seed + trial - 1;
                tasks.extend(mine.iter().map(|(experiment, case)| Task {
                    experiment: *experiment,
                    seconds: experiment.seconds(case, &options),
                    cost: experiment.cost(case, seed),
                    case: case.clone(),
                    trial,
                    seed,
                }));
            }
        }
        tasks.sort_by_key(|task| task.cost == Cost::Heavy);
        tasks
    }

    fn check_names(&self, cases: &[(&dyn Experiment, Case)]) -> anyhow::Result<()> {
        let mut names: Vec<&str> = peer::all().iter().map(|peer| peer.name()).collect();
        names.extend(cases.iter().map(|(_, case)| case.peer.as_str()));
        let unknown = self.peers.iter().find(|name| !names.contains(&name.as_str()));
        if let Some(unknown) = unknown {
            names.sort_unstable();
            names.dedup();
            bail!("there is no peer `{unknown}`; choose from {}", names.join(", "));
        }
        Ok(())
    }
}

/// Returns the peers, proxies and emulators that these cases need but that are missing here, with the reasons.
fn missing(cases: &[(&dyn Experiment, Case)]) -> BTreeMap<String, String> {
    let peers = peer::all().iter().filter_map(|peer| Some((peer.name().to_owned(), peer.missing()?)));
    let emulators = PeerNote::of_emulators().into_iter().filter_map(|note| Some((note.name, note.missing?)));
    let proxies = carrier::notes().into_iter().filter_map(|note| Some((note.name, note.missing?)));
    let mut all: BTreeMap<_, _> = peers.chain(proxies).chain(emulators).collect();
    all.retain(|name, _| cases.iter().any(|(_, case)| case.peer == *name));
    all
}
