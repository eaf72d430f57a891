//! The activity log: one JSON line per event, in files of limited size.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::ServiceError;

/// The files of the activity log, and how much of it is kept.
///
/// In a configuration file, these are a section, or the path alone.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ActivityOptions {
    /// The log file. Older files have `.1`, `.2` and so on appended to this name.
    pub path: PathBuf,
    /// The size limit of a file, bytes. The file is rotated before it would grow beyond this. Default 16 MiB.
    #[serde(serialize_with = "whimbrel::units::as_text::bytes::serialize")]
    pub most_bytes: u64,
    /// The number of older files to keep. Default 4.
    pub keep: u32,
}

fn most_bytes() -> u64 {
    16 << 20
}

fn keep() -> u32 {
    4
}

impl ActivityOptions {
    /// Logs to this file, with the defaults.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), most_bytes: most_bytes(), keep: keep() }
    }

    /// Sets the size limit of a file, bytes.
    #[must_use]
    pub fn most_bytes(mut self, bytes: u64) -> Self {
        self.most_bytes = bytes;
        self
    }

    /// Sets the number of older files to keep.
    #[must_use]
    pub fn keep(mut self, files: u32) -> Self {
        self.keep = files;
        self
    }
}

impl<'de> Deserialize<'de> for ActivityOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PathOrSection)
    }
}

struct PathOrSection;

impl<'de> Visitor<'de> for PathOrSection {
    type Value = ActivityOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path in quotation marks, or a section with a `path`")
    }

    fn visit_str<E: Error>(self, path: &str) -> Result<ActivityOptions, E> {
        Ok(ActivityOptions::new(path))
    }

    fn visit_map<A: MapAccess<'de>>(self, section: A) -> Result<ActivityOptions, A::Error> {
        let ActivitySection { path, most_bytes, keep } =
            ActivitySection::deserialize(MapAccessDeserializer::new(section))?;
        Ok(ActivityOptions { path, most_bytes, keep })
    }
}

/// The options as a section of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActivitySection {
    path: PathBuf,
    #[serde(with = "whimbrel::units::as_text::bytes", default = "most_bytes")]
    most_bytes: u64,
    #[serde(default = "keep")]
    keep: u32,
}

/// An open activity log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ActivityLog(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    options: ActivityOptions,
    file: File,
    bytes: u64,
}

impl ActivityLog {
    /// Opens the file for appending. A new file is accessible only to its owner.
    ///
    /// # Errors
    /// The system cannot open the file.
    pub fn open(options: ActivityOptions) -> Result<Self, ServiceError> {
        let failed = |error| ServiceError::Activity { path: options.path.clone(), error };
        let (file, bytes) = open(&options.path).map_err(failed)?;
        Ok(Self(Arc::new(Mutex::new(Inner { options, file, bytes }))))
    }

    /// Writes a line with the time, `what` happened, and the fields of `more`, which must be an object. An error,
    /// such as a full disk, does no harm: the call returns false if the line was not written.
    pub fn note(&self, what: &str, more: serde_json::Value) -> bool {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut line = serde_json::Map::new();
        line.insert("time".to_owned(), (since.as_millis() as u64).into());
        line.insert("what".to_owned(), what.into());
        if let serde_json::Value::Object(more) = more {
            line.extend(more);
        }
        let text = format!("{}\n", serde_json::Value::Object(line));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(&text).is_ok()
    }
}

impl Inner {
    fn write(&mut self, text: &str) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + text.len() as u64 > self.options.most_bytes {
            self.put_aside()?;
        }
        self.file.write_all(text.as_bytes())?;
        self.bytes += text.len() as u64;
        Ok(())
    }

    fn put_aside(&mut self) -> io::Result<()> {
        let named = |number: u32| {
            let mut name = self.options.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        for number in (1..self.options.keep).rev() {
            // There may be fewer older files so far.
            std::fs::rename(named(number), named(number + 1)).ok();
        }
        if self.options.keep > 0 {
            std::fs::rename(&self.options.path, named(1))?;
        } else {
            std::fs::remove_file(&self.options.path)?;
        }
        (self.file, self.bytes) = open(&self.options.path)?;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_put_aside_and_the_oldest_goes() {
        let folder = std::env::temp_dir().join(format!("whimbrel-activity-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log");
        let options = ActivityOptions::new(&path).most_bytes(200).keep(2);
        let log = ActivityLog::open(options.clone()).unwrap();
        for number in 0..20 {
            assert!(log.note("counted", serde_json::json!({ "number": number, "text": "line\nbreak" })));
        }
        let mut files: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, ["log", "log.1", "log.2"]);
        let newest = std::fs::read_to_string(&path).unwrap();
        assert!(newest.len() <= 200 && newest.lines().count() >= 1);
        let last: serde_json::Value = serde_json::from_str(newest.lines().last().unwrap()).unwrap();
        assert_eq!((&last["what"], &last["number"]), (&"counted".into(), &19.into()));
        // A reopened log is appended to.
        let before = newest.lines().count();
        assert!(ActivityLog::open(options).unwrap().note("again", serde_json::Value::Null));
        let after = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(after == before + 1 || after == 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
