//! The end of the segment that is being written.

use std::io;
use std::sync::Arc;

use super::queue::Name;
use crate::store::disk::{Handle, is_full, write_all};
use crate::store::format::{HEAD, Head, Salt};

/// The end of a segment file.
pub(super) struct Tail {
    pub(super) handle: Arc<dyn Handle>,
    pub(super) salt: Salt,
    /// Where the next record goes.
    pub(super) end: u32,
    /// How far it is on disk.
    pub(super) synchronised: u32,
}

/// Why the writer goes on or not after an error.
pub(super) enum Trouble {
    /// There is no room; all is as before.
    Full(Arc<io::Error>),
    /// Nobody knows what is on disk.
    Broken(Arc<io::Error>),
}

impl Trouble {
    pub(super) fn broken(error: io::Error) -> Self {
        Self::Broken(Arc::new(error))
    }

    pub(super) fn of(error: io::Error) -> Self {
        if is_full(&error) { Self::Full(Arc::new(error)) } else { Self::broken(error) }
    }
}

impl Tail {
    /// Completes the heads of records that are about to be appended. `begin` is where `bytes` begins in the names' batch.
    pub(super) fn address(&self, bytes: &mut [u8], names: &[Name], begin: u32) {
        for name in names {
            let at = name.from - begin;
            let head = Head { synchronised: self.synchronised, ..name.head };
            let encoded = head.encode(self.salt, self.end + at);
            bytes[at as usize..at as usize + HEAD].copy_from_slice(&encoded);
        }
    }

    /// Writes at the end. If there is no room, the file is as before.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        write_all(&*self.handle, bytes, self.end.into()).map_err(|error| self.cut(error))?;
        self.end += bytes.len() as u32;
        Ok(())
    }

    /// Removes what a failed write left.
    fn cut(&self, error: io::Error) -> Trouble {
        match self.handle.set_len(self.end.into()) {
            Ok(()) => Trouble::of(error),
            Err(_) => Trouble::broken(error),
        }
    }

    pub(super) fn synchronise(&mut self) -> Result<(), Trouble> {
        if self.synchronised < self.end {
            self.handle.sync().map_err(Trouble::broken)?;
            self.synchronised = self.end;
        }
        Ok(())
    }
}
