//! Files for their owner alone, whatever the umask says.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// A file to be, for nobody else to read: begun beside its place, and put there whole. One that was there before is replaced, with
/// whatever others might do with it.
pub(crate) struct Draft {
    file: PathBuf,
    draft: PathBuf,
    out: File,
}

impl Draft {
    pub(crate) fn begin(file: &Path) -> io::Result<Self> {
        let mut draft = file.as_os_str().to_owned();
        draft.push(".part");
        let draft = PathBuf::from(draft);
        // One that was left behind may be open to others.
        fs::remove_file(&draft).ok();
        let out = private(OpenOptions::new().write(true).create_new(true)).open(&draft)?;
        Ok(Self { file: file.to_owned(), draft, out })
    }

    pub(crate) fn finish(mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.sync_all()?;
        fs::rename(&self.draft, &self.file)?;
        keep_name(&self.file);
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It is not there if it was finished.
        fs::remove_file(&self.draft).ok();
    }
}

/// Has the folder remember a new name even if the power fails. Not every file system can; the file is whole all the same.
fn keep_name(file: &Path) {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = File::open(folder) {
        folder.sync_all().ok();
    }
}

/// A file that is made by this is for its owner alone.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// The secrets in a file, wiped when they are let go, and who else can get at it.
pub(crate) fn read(path: &Path) -> io::Result<(Zeroizing<Vec<u8>>, Exposure)> {
    let mut file = File::open(path)?;
    let found = file.metadata()?;
    // With room to spare: what grows leaves copies behind.
    let length = usize::try_from(found.len()).unwrap_or(0);
    let mut bytes = Zeroizing::new(Vec::with_capacity(length + 64));
    file.read_to_end(&mut bytes)?;
    Ok((bytes, Exposure::of(&found)))
}

/// Who can get at a file beside its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exposure {
    /// Nobody.
    Private,
    /// Others can read it.
    Readable,
    /// Others can change it.
    Writable,
}

impl Exposure {
    #[cfg(unix)]
    pub(crate) fn of(found: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        match found.mode() & 0o077 {
            _ if !found.is_file() => Self::Private,
            0 => Self::Private,
            others if others & 0o022 != 0 => Self::Writable,
            _ => Self::Readable,
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &fs::Metadata) -> Self {
        Self::Private
    }
}

/// Takes from others what they may do with an open file.
pub(crate) fn shut(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    if Exposure::of(&file.metadata()?) != Exposure::Private {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_replaced_is_private_and_whole() {
        let path = std::env::temp_dir().join(format!("whimbrel-private-{}", std::process::id()));
        fs::write(&path, "older").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(read(&path).unwrap().1, Exposure::Writable);
        let draft = Draft::begin(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"older", "until it is whole");
        draft.finish(b"newer").unwrap();
        let (bytes, exposure) = read(&path).unwrap();
        assert_eq!((&bytes[..], exposure), (&b"newer"[..], Exposure::Private));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read(&path).unwrap().1, Exposure::Readable);
        shut(&File::open(&path).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap().1, Exposure::Private);
        fs::remove_file(&path).unwrap();
    }
}
