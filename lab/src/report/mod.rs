//! `lab report` writes pages and pictures from the samples that are kept.

mod agreement;
mod chart;
pub(crate) mod goal;
pub(crate) mod late;
mod page;
pub(crate) mod plot;
mod summary;
pub(crate) mod table;

use std::fs;
use std::path::{Path, PathBuf};

use crate::experiment;
use crate::sample::Record;
use crate::shelf::Shelf;

/// Writes the report from the samples that are kept
#[derive(clap::Args)]
pub(crate) struct Report {
    /// Reports the last quick run into `lab/results/quick`, instead of the whole runs into `docs`
    #[arg(long)]
    quick: bool,
    /// Reports the last runs that were not whole into `lab/results/part`
    #[arg(long, conflicts_with = "quick")]
    part: bool,
}

impl Report {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let shelf = match self {
            Self { quick: true, .. } => Shelf::Quick,
            Self { part: true, .. } => Shelf::Part,
            _ => Shelf::Whole,
        };
        let samples = shelf.folder();
        let docs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"));
        let folder = if shelf == Shelf::Whole { docs } else { samples.clone() };
        let mut records = Vec::new();
        for experiment in experiment::all() {
            records.push((*experiment, Record::read(&samples, experiment.name())?));
        }
        let kept = records.iter().filter(|(_, record)| record.is_some()).count();
        anyhow::ensure!(kept > 0, "there are no samples in {}: `lab run` makes some", samples.display());
        let pages = folder.join("results");
        clear(&pages)?;
        let page = page::page(&records, &mut |name, content| Ok(fs::write(pages.join(name), content)?))?;
        let path = folder.join("results.md");
        fs::write(&path, page)?;
        println!("{kept} experiments in {}", path.display());
        Ok(())
    }
}

/// Removes the pages and pictures of the last report.
fn clear(pages: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(pages)?;
    for entry in fs::read_dir(pages)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg" || extension == "md") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
