//! A folder for the files of a pair of proxies.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;

/// A folder that is removed when this is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> anyhow::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("whimbrel-lab-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, and returns its path as text.
    pub(super) fn write(&self, name: &str, content: &str) -> anyhow::Result<String> {
        let path = self.file(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        text(&path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's care of temporary files.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Returns a path as text.
pub(super) fn text(path: &Path) -> anyhow::Result<String> {
    Ok(path.to_str().context("a path that is not UTF-8")?.to_owned())
}
