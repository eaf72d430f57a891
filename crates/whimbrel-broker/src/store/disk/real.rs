//! The operating system's files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, Handle};

/// The operating system's file system.
#[derive(Debug)]
pub(in crate::store) struct Real;

impl Disk for Real {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Handle>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        private(&mut options);
        Ok(Arc::new(options.open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn Handle>> {
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        create_private_folder(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        // Windows cannot open a folder as a file, and needs no such step.
        if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
    }
}

impl Handle for File {
    #[cfg(unix)]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(self, bytes, offset)
    }

    #[cfg(windows)]
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_write(self, bytes, offset)
    }

    #[cfg(unix)]
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, bytes, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        Self::set_len(self, length)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Creates a folder that only its owner may read, and the folders above it.
pub(in crate::store) fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(unix)]
pub(in crate::store) fn private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
pub(in crate::store) fn private(_: &mut OpenOptions) {}
