//! The folders that hold samples.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Variable that names another folder for all samples, and for the pages of runs that are not whole.
const ELSEWHERE: &str = "LAB_RESULTS";

/// A folder of samples. Whole runs are the record. The others are kept apart from it, and are not part of the
/// repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    /// Runs of all cases at full length.
    Whole,
    /// Quick runs.
    Quick,
    /// Runs of some peers, of few trials, or of another duration.
    Part,
}

impl Shelf {
    pub(crate) const ALL: [Self; 3] = [Self::Whole, Self::Quick, Self::Part];

    pub(crate) fn folder(self) -> PathBuf {
        let own = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results"));
        let folder = std::env::var_os(ELSEWHERE).map_or_else(own, PathBuf::from);
        match self {
            Self::Whole => folder,
            Self::Quick => folder.join("quick"),
            Self::Part => folder.join("part"),
        }
    }
}

/// Removes the samples of unfinished runs that are no longer running. Returns their paths.
pub(crate) fn clear() -> io::Result<Vec<PathBuf>> {
    let mut cleared = Vec::new();
    for folder in Shelf::ALL.map(Shelf::folder) {
        clear_folder(&folder, &mut cleared)?;
    }
    Ok(cleared)
}

fn clear_folder(folder: &Path, cleared: &mut Vec<PathBuf>) -> io::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // A run in progress holds a lock on its files.
        if path.extension().is_some_and(|extension| extension == "part")
            && File::open(&path)?.try_lock().is_ok()
        {
            fs::remove_file(&path)?;
            cleared.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_run_holds_is_taken_away() {
        let folder = std::env::temp_dir().join(format!("whimbrel-lab-shelf-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [left, held, kept] =
            ["left.jsonl.part", "held.jsonl.part", "kept.jsonl"].map(|name| folder.join(name));
        let files = [&left, &held, &kept].map(|path| File::create(path).unwrap());
        files[1].try_lock().unwrap();
        let mut cleared = Vec::new();
        clear_folder(&folder, &mut cleared).unwrap();
        assert_eq!(cleared, [left]);
        assert!(held.exists() && kept.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
