//! The seam to the file system, so that tests can fill, break and crash a disk.

#[cfg(test)]
pub(super) mod memory;
mod real;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use real::{Real, create_private_folder, private};

/// A file system.
pub(super) trait Disk: Debug + Send + Sync {
    /// Creates a file that must not exist.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Handle>>;
    /// Opens a file.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Handle>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a folder, unless it exists.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;
    /// The files in a folder.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes the names in a folder survive a power failure.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// An open file.
pub(super) trait Handle: Debug + Send + Sync {
    /// Writes some of `bytes`. Returns how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Reads some bytes. Returns how many; 0 at the end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Cuts the file to `length`, or lengthens it by zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// The length.
    fn len(&self) -> io::Result<u64>;
    /// Returns when everything written is on disk.
    fn sync(&self) -> io::Result<()>;
}

/// Writes all of `bytes`.
pub(super) fn write_all(handle: &dyn Handle, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match handle.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `bytes`, or as much of it as the file has. Returns how much.
pub(super) fn read_full(handle: &dyn Handle, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match handle.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Whether an error says that there is no room.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
