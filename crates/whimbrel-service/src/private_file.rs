//! Files that only their owner can access, whatever the umask is: keys, tickets, suspended sessions.
//!
//! Permissions are those of Unix. Elsewhere files have the permissions of their folder, and count as private.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// A file in the making that nobody else can read. It is written beside its final place and moved there when
/// complete. It replaces an existing file, including that file's permissions. A draft that is dropped unfinished is
/// removed.
#[derive(Debug)]
pub struct Draft {
    file: PathBuf,
    draft: PathBuf,
    out: File,
}

impl Draft {
    /// Creates the draft of `file`, which is named `file` with `.part` appended. An earlier draft is removed.
    ///
    /// # Errors
    /// The folder is missing, or nothing can be created there.
    pub fn begin(file: &Path) -> io::Result<Self> {
        let mut draft = file.as_os_str().to_owned();
        draft.push(".part");
        let draft = PathBuf::from(draft);
        // A draft left behind earlier may be readable by others.
        fs::remove_file(&draft).ok();
        let out = private(OpenOptions::new().write(true).create_new(true)).open(&draft)?;
        Ok(Self { file: file.to_owned(), draft, out })
    }

    /// Writes `bytes` to the disk and moves the file to its place.
    ///
    /// # Errors
    /// The file cannot be written or moved. The file that was there before is then still there.
    pub fn finish(mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.sync_all()?;
        fs::rename(&self.draft, &self.file)?;
        keep_name(&self.file);
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // A finished draft no longer exists here.
        fs::remove_file(&self.draft).ok();
    }
}

/// Makes the folder's new entry survive a power failure. Not every file system can do that; the file itself is
/// complete anyway.
fn keep_name(file: &Path) {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = File::open(folder) {
        folder.sync_all().ok();
    }
}

/// Creates missing folders for their owner only, because they are for keys and for what is trusted.
pub(crate) fn make_folders(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Makes a file that is created with these options accessible to its owner only.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Reads the secrets in a file, which are wiped when dropped. Also returns who else can access the file.
///
/// # Errors
/// The file is missing or cannot be read.
pub fn read(path: &Path) -> io::Result<(Zeroizing<Vec<u8>>, Exposure)> {
    let mut file = File::open(path)?;
    let found = file.metadata()?;
    // With room to spare, because a buffer that grows leaves copies behind.
    let length = usize::try_from(found.len()).unwrap_or(0);
    let mut bytes = Zeroizing::new(Vec::with_capacity(length + 64));
    file.read_to_end(&mut bytes)?;
    Ok((bytes, Exposure::of(&found)))
}

/// The exposure of a file to users other than its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exposure {
    /// Only the owner can access it.
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

/// Removes others' permissions from an open file.
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
