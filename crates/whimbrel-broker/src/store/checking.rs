//! A look at the folder of a store before a broker uses it. Nothing that is there is changed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::folder::{LOCK, META, Store, try_lock};
use super::format::{OPENING, Opening, OpeningError, VERSION};
use super::meta::{Meta, MetaError};

impl Store {
    /// Checks that a broker could open a store in this folder: the folder can be used or made, no other process uses it, and this version
    /// knows the files in it.
    ///
    /// # Errors
    /// As [`Store::open`], or a log is of a newer version.
    pub fn check(folder: &Path) -> Result<(), MetaError> {
        let failed = |error| StoreError::io(folder, error);
        match fs::metadata(folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(failed(io::Error::other("it is a file, and has to be a folder")).into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(can_write(&nearest(folder)).map_err(failed)?);
            }
            Err(error) => return Err(failed(error).into()),
        }
        if let Ok(lock) = OpenOptions::new().write(true).open(folder.join(LOCK)) {
            try_lock(&lock, folder)?;
        }
        can_write(folder).map_err(failed)?;
        let meta = folder.join(META);
        if meta.exists() {
            Meta::check(&meta)?;
        }
        for segment in segments(folder).map_err(failed)? {
            check_opening(&segment)?;
        }
        Ok(())
    }
}

/// The nearest folder above a path that exists.
fn nearest(path: &Path) -> PathBuf {
    let above = path.ancestors().skip(1).find(|above| above.exists() || above.as_os_str().is_empty());
    match above {
        Some(above) if !above.as_os_str().is_empty() => above.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Makes a file in a folder, and removes it.
fn can_write(folder: &Path) -> io::Result<()> {
    let file = folder.join(format!(".whimbrel-check-{}", std::process::id()));
    File::create_new(&file)?;
    fs::remove_file(file)
}

/// The segments of all logs.
fn segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && entry.file_name().to_string_lossy().starts_with("log-") {
            for file in fs::read_dir(entry.path())? {
                all.push(file?.path());
            }
        }
    }
    all.retain(|file| file.extension().is_some_and(|end| end == "seg"));
    all.sort();
    Ok(all)
}

/// Checks the version of a segment. Damage is found, and mended as far as it can be, when a log is opened.
fn check_opening(file: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io(file, error);
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(failed)?;
    opened.take(OPENING.into()).read_to_end(&mut bytes).map_err(failed)?;
    match Opening::parse(&bytes) {
        Err(OpeningError::Newer(version)) => {
            Err(StoreError::Newer { file: file.to_owned(), version, known: VERSION })
        }
        Ok(_) | Err(OpeningError::Damaged) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::message::ChannelId;

    use super::super::format::Salt;
    use super::super::settings::StoreSettings;
    use super::super::testing::Folder;
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_used_is_told() {
        let folder = Folder::new("check");
        let says = |folder: &Path| Store::check(folder).unwrap_err().to_string();
        let (file, missing) = (folder.0.join("file"), folder.0.join("a/b"));
        fs::write(&file, "x").unwrap();
        assert!(says(&file).contains("has to be a folder"), "{}", says(&file));
        assert!(says(&file.join("below")).contains("[store]"), "{}", says(&file.join("below")));
        Store::check(&missing).unwrap();
        assert!(!missing.exists() && fs::read_dir(&folder.0).unwrap().count() == 1, "nothing is left behind");
        let used = folder.0.join("used");
        let store = Store::open(&used, StoreSettings::default()).unwrap();
        assert!(says(&used).contains("another broker uses this folder"));
        drop(store);
        Store::check(&used).unwrap();
        // A segment of a version to come.
        let opening = Opening { channel: ChannelId(1), first: 0, salt: Salt(7) };
        let mut bytes = opening.encode();
        bytes[12] = 9;
        let sum = crc32c::crc32c(&bytes[..36]).to_le_bytes();
        bytes[36..].copy_from_slice(&sum);
        fs::create_dir(used.join("log-1")).unwrap();
        fs::write(used.join("log-1/00000000000000000000.seg"), bytes).unwrap();
        assert!(says(&used).contains("version 9"), "{}", says(&used));
    }
}
