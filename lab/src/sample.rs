//! Samples, one JSON line each, and the files that hold them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::machine::Header;
use crate::testbed::lateness::{Lateness, TOLERATED};

/// Metric: 99th percentile of how late packets left their link, ms.
pub(crate) const LATE_P99: &str = "late_p99_ms";
/// Metric: percentage of packets that left their link later than allowed.
const LATE_BEYOND: &str = "late_beyond";

/// Findings of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Metrics {
    /// Figures by name, in the units of the experiment's columns.
    pub(crate) values: BTreeMap<String, f64>,
    /// Curves by name, for the pictures.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) curves: BTreeMap<String, Vec<(f64, f64)>>,
}

impl Metrics {
    /// Records a figure to six significant digits. A value that is not finite is left out.
    pub(crate) fn set(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            // Adding 0 turns -0 into +0.
            self.values.insert(name.to_owned(), round(value, 6) + 0.0);
        }
    }

    /// Adds how late the links of the trial were.
    pub(crate) fn noting(mut self, late: &Lateness) -> Self {
        if let Some(beyond) = late.beyond() {
            self.set(LATE_P99, late.quantile(0.99).as_secs_f64() * 1e3);
            self.set(LATE_BEYOND, beyond);
        }
        self
    }

    /// Returns whether the links were later than allowed. `None` if that was not recorded. A sample without a count of
    /// late packets is judged by 1 ms, which is the least that any link is allowed.
    pub(crate) fn was_late(&self) -> Option<bool> {
        let counted = self.values.get(LATE_BEYOND).map(|beyond| *beyond > TOLERATED);
        counted.or_else(|| self.values.get(LATE_P99).map(|late| *late > 1.0))
    }

    /// Records a curve to four significant digits.
    pub(crate) fn draw(&mut self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) {
        let points = points.into_iter().map(|(x, y)| (round(x, 4), round(y, 4)));
        self.curves.insert(name.to_owned(), points.collect());
    }
}

/// Rounds to this many significant digits, which keeps the files small.
fn round(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// A trial and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Name of the experiment.
    pub(crate) experiment: String,
    /// Condition of the case.
    pub(crate) condition: String,
    /// Name of the peer.
    pub(crate) peer: String,
    /// Number of the trial, from 1.
    pub(crate) trial: u64,
    /// Seed of the trial.
    pub(crate) seed: u64,
    /// Its findings, or why it failed.
    pub(crate) result: Result<Metrics, String>,
}

/// One line of a samples file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Header(Box<Header>),
    Sample(Sample),
}

/// The record of one experiment: all that is kept of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// The machine and the settings of the run.
    pub(crate) header: Header,
    /// Its trials.
    pub(crate) samples: Vec<Sample>,
}

impl Record {
    /// Returns the path of an experiment's samples file.
    pub(crate) fn path(folder: &Path, experiment: &str) -> PathBuf {
        folder.join(format!("{experiment}.jsonl"))
    }

    /// Reads the record of an experiment. `None` if it was never run.
    pub(crate) fn read(folder: &Path, experiment: &str) -> anyhow::Result<Option<Self>> {
        Self::read_file(&Self::path(folder, experiment))
    }

    fn read_file(path: &Path) -> anyhow::Result<Option<Self>> {
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(path)?;
        let (mut header, mut samples) = (None, Vec::new());
        for (number, line) in text.lines().enumerate() {
            let line = serde_json::from_str(line)
                .with_context(|| format!("line {} of {} is not a sample", number + 1, path.display()))?;
            match line {
                Line::Header(found) => header = Some(*found),
                Line::Sample(sample) => samples.push(sample),
            }
        }
        let header = header.with_context(|| format!("{} has no header", path.display()))?;
        Ok(Some(Self { header, samples }))
    }
}

/// A samples file in the making. Once it is finished, it replaces that of the last run.
pub(crate) struct Recorder {
    file: File,
    part: PathBuf,
    path: PathBuf,
    found: bool,
}

impl Recorder {
    /// Starts a file with its header.
    pub(crate) fn new(folder: &Path, experiment: &str, header: &Header) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = Record::path(folder, experiment);
        let part = path.with_extension("jsonl.part");
        let file = File::options().create(true).append(true).open(&part);
        let file = file.with_context(|| format!("cannot write {}", part.display()))?;
        // The lock is held until the run is over.
        file.try_lock().with_context(|| format!("another run is writing {}", part.display()))?;
        file.set_len(0)?;
        let mut recorder = Self { file, part, path, found: false };
        recorder.line(&Line::Header(Box::new(header.clone())))?;
        Ok(recorder)
    }

    /// Goes on with the file of a run that was interrupted, if there is one. Returns its samples, too.
    ///
    /// # Errors
    /// The file is of another run: another revision, machine, seed or number of trials.
    pub(crate) fn resume(
        folder: &Path,
        experiment: &str,
        header: &Header,
    ) -> anyhow::Result<(Self, Vec<Sample>)> {
        let path = Record::path(folder, experiment);
        let part = path.with_extension("jsonl.part");
        let Some(begun) = Record::read_file(&part)? else {
            return Ok((Self::new(folder, experiment, header)?, Vec::new()));
        };
        anyhow::ensure!(
            begun.header.is_of(header),
            "{} is of another run (revision {}, seed {}, {} trials): run without --resume to begin anew",
            part.display(),
            begun.header.commit,
            begun.header.seed,
            begun.header.trials
        );
        // A failed trial may have failed by the interruption.
        let done: Vec<_> = begun.samples.into_iter().filter(|sample| sample.result.is_ok()).collect();
        let mut recorder = Self::new(folder, experiment, &begun.header)?;
        done.iter().try_for_each(|sample| recorder.add(sample.clone()))?;
        Ok((recorder, done))
    }

    /// Appends a sample.
    pub(crate) fn add(&mut self, sample: Sample) -> anyhow::Result<()> {
        self.found |= sample.result.is_ok();
        self.line(&Line::Sample(sample))
    }

    /// Finishes the file. It replaces the record if any trial succeeded or there was no record. Returns whether it did.
    pub(crate) fn finish(self) -> anyhow::Result<bool> {
        let keeps = self.found || !self.path.exists();
        if keeps {
            fs::rename(&self.part, &self.path)?;
        }
        Ok(keeps)
    }

    /// Returns the path of the file until it is finished.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    fn line(&mut self, line: &Line) -> anyhow::Result<()> {
        Ok(writeln!(self.file, "{}", serde_json::to_string(line)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_run_takes_the_place_of_the_last_one() {
        let folder = std::env::temp_dir().join(format!("whimbrel-lab-{}", std::process::id()));
        let sample = |value: f64| {
            let mut metrics = Metrics::default();
            metrics.set("goodput", value);
            metrics.set("nonsense", f64::NAN);
            metrics.draw("rate", [(0.0, 1.0 / 3.0)]);
            Sample {
                experiment: "x".into(),
                condition: "c".into(),
                peer: "p".into(),
                trial: 1,
                seed: 7,
                result: Ok(metrics),
            }
        };
        let header = Header { seed: 7, ..Header::default() };
        let mut first = Recorder::new(&folder, "x", &header).unwrap();
        first.add(sample(1.0)).unwrap();
        assert_eq!(Record::read(&folder, "x").unwrap(), None, "not finished");
        assert!(first.finish().unwrap());
        let mut second = Recorder::new(&folder, "x", &header).unwrap();
        second.add(Sample { result: Err("no link".into()), ..sample(0.0) }).unwrap();
        second.add(sample(2.0)).unwrap();
        assert_eq!(Record::read(&folder, "x").unwrap().unwrap().samples, [sample(1.0)]);
        assert!(second.finish().unwrap());
        let record = Record::read(&folder, "x").unwrap().unwrap();
        assert_eq!(record.header, header);
        assert_eq!(record.samples[0].result, Err("no link".into()));
        let metrics = record.samples[1].result.clone().unwrap();
        assert_eq!((metrics.values.len(), metrics.values["goodput"]), (1, 2.0));
        assert_eq!(metrics.curves["rate"], [(0.0, 0.3333)]);
        let mut failed = Recorder::new(&folder, "x", &Header::default()).unwrap();
        failed.add(Sample { result: Err("no link".into()), ..sample(0.0) }).unwrap();
        assert!(!failed.finish().unwrap(), "a failed run does not replace a record");
        assert_eq!(Record::read(&folder, "x").unwrap().unwrap(), record);
        let mut begun = Recorder::new(&folder, "x", &header).unwrap();
        begun.add(sample(3.0)).unwrap();
        begun.add(Sample { result: Err("stopped".into()), ..sample(0.0) }).unwrap();
        drop(begun);
        assert!(Recorder::resume(&folder, "x", &Header::default()).is_err(), "another seed is another run");
        let later = Header { date: "later".into(), ..header };
        let (goes_on, done) = Recorder::resume(&folder, "x", &later).unwrap();
        assert_eq!(done, [sample(3.0)], "what failed is run again");
        assert!(goes_on.finish().unwrap());
        assert_eq!(Record::read(&folder, "x").unwrap().unwrap().samples, [sample(3.0)]);
        fs::remove_dir_all(&folder).unwrap();
    }
}
