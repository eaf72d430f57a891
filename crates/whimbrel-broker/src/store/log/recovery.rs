//! Opening a log, after whatever happened to it.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use whimbrel_pubsub::message::ChannelId;

use super::super::error::{AppendError, Damage, Notice, StoreError};
use super::super::settings::LogSettings;
use super::core::Log;
use super::file_names::position_in;
use super::handles::Handles;
use super::listener::Listener;
use super::queue::Queue;
use super::scan::{Rest, Scan, length, scan};
use super::seal;
use super::segments::{Active, Full, Segments};
use super::shared::Shared;
use super::writer::Writer;
use crate::store::disk::{Disk, Handle, read_full, write_all};
use crate::store::format::{OPENING, Opening, OpeningError, VERSION};

/// A log and its writer, which ends when this is dropped.
#[derive(Debug)]
pub(in crate::store) struct OpenLog {
    log: Log,
    writer: Option<JoinHandle<()>>,
}

impl OpenLog {
    /// Opens the log of a channel in its folder, which is created if it is missing.
    pub(in crate::store) fn open(
        disk: Arc<dyn Disk>,
        folder: PathBuf,
        channel: ChannelId,
        settings: LogSettings,
    ) -> Result<Self, StoreError> {
        let made = disk
            .create_folder(&folder)
            .and_then(|()| folder.parent().map_or(Ok(()), |above| disk.sync_folder(above)));
        made.map_err(|error| StoreError::io(&folder, error))?;
        let mut found =
            Finding { disk: &*disk, channel, full: VecDeque::new(), active: None, notices: Vec::new() };
        found.find(&folder)?;
        let (full, notices) = (found.full, found.notices);
        let (active, tail) = found.active.map_or((None, OPENING), |(active, tail)| (Some(active), tail));
        let shared = Arc::new(Shared {
            channel,
            folder,
            queue: Queue::new(settings.most_queued),
            segments: Mutex::new(Segments { full, active, after_all: 0 }),
            handles: Handles::new(disk.clone()),
            trimming: Mutex::default(),
            disk,
            settings,
            notices,
            groups: AtomicU64::new(0),
            listener: Listener::default(),
        });
        let writer = Writer::new(shared.clone(), tail);
        let thread = std::thread::Builder::new().name(format!("log {}", channel.0));
        let writer =
            thread.spawn(move || writer.run()).map_err(|error| StoreError::io(&shared.folder, error))?;
        Ok(Self { log: Log { shared }, writer: Some(writer) })
    }

    pub(in crate::store) fn log(&self) -> &Log {
        &self.log
    }

    /// Whether the log has to be opened again to take something.
    pub(in crate::store) fn is_broken(&self) -> bool {
        self.log.refusal().is_some()
    }
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        self.log.shared.queue.refuse(AppendError::Closed);
        // A writer that panicked has nothing to hand over.
        self.writer.take().map(JoinHandle::join);
    }
}

/// The parts of a log that are found while it is opened.
struct Finding<'a> {
    disk: &'a dyn Disk,
    channel: ChannelId,
    full: VecDeque<Arc<Full>>,
    /// The segment to go on with, and where.
    active: Option<(Active, u32)>,
    notices: Vec<Notice>,
}

impl Finding<'_> {
    fn find(&mut self, folder: &Path) -> Result<(), StoreError> {
        let files = self.files(folder)?;
        let mut end = None;
        for (at, (first, file)) in files.iter().enumerate() {
            match end {
                Some(end) if end > *first => {
                    return Err(damaged(file, 0, "it has positions of the segment before it"));
                }
                Some(end) if end < *first => {
                    self.notices.push(Notice::Missing { channel: self.channel, first: end, last: first - 1 });
                }
                _ => {}
            }
            let following = files.get(at + 1).map(|(first, _)| *first);
            end = self.segment(*first, file, following)?.or(end);
        }
        Ok(())
    }

    /// The segment files by position.
    fn files(&mut self, folder: &Path) -> Result<Vec<(u64, PathBuf)>, StoreError> {
        let mut files = Vec::new();
        for file in self.disk.list(folder).map_err(|error| StoreError::io(folder, error))? {
            match position_in(&file) {
                Some(first) => files.push((first, file)),
                // Salvaging keeps what it could not read.
                None if file.extension().is_some_and(|end| end == "damaged") => {}
                None => self.notices.push(Notice::Ignored { file }),
            }
        }
        files.sort();
        Ok(files)
    }

    /// Takes in a segment. Returns the position behind it, unless there is none in it.
    fn segment(
        &mut self,
        first: u64,
        file: &Path,
        following: Option<u64>,
    ) -> Result<Option<u64>, StoreError> {
        let failed = |error| StoreError::io(file, error);
        let handle = self.disk.open(file).map_err(failed)?;
        let Some(opening) = self.opening(first, file, &*handle, following.is_none())? else {
            return Ok(None);
        };
        if let Some(summary) = seal::read(&*handle, opening.salt).map_err(failed)? {
            let full = Full { file: file.to_owned(), opening, summary, bytes: handle.len().map_err(failed)? };
            let end = full.end();
            self.full.push_back(Arc::new(full));
            return Ok(Some(end));
        }
        let scan = scan(&*handle, opening.salt).map_err(failed)?;
        if let Rest::Damaged(why) = scan.rest {
            return Err(damaged(file, scan.end.into(), why));
        }
        let end = first + u64::from(scan.index.messages());
        match following {
            Some(following) if following != end => {
                return Err(damaged(
                    file,
                    scan.end.into(),
                    "messages are missing between it and the next segment",
                ));
            }
            Some(_) => self.seal_again(file, opening, &*handle, &scan).map_err(failed)?,
            None => self.go_on(file, opening, handle, scan).map_err(failed)?,
        }
        Ok(Some(end))
    }

    /// Reads how a file begins. `None` if it was just being created.
    fn opening(
        &mut self,
        first: u64,
        file: &Path,
        handle: &dyn Handle,
        is_last: bool,
    ) -> Result<Option<Opening>, StoreError> {
        let failed = |error| StoreError::io(file, error);
        let length = length(handle).map_err(failed)?;
        let mut bytes = [0; OPENING as usize];
        let filled = read_full(handle, &mut bytes, 0).map_err(failed)?;
        match Opening::parse(&bytes[..filled]) {
            Ok(opening) if (opening.channel, opening.first) == (self.channel, first) => Ok(Some(opening)),
            Ok(opening) => Err(StoreError::Misplaced {
                file: file.to_owned(),
                found: format!("of channel {} from position {} on", opening.channel.0, opening.first),
                expected: format!("channel {} from position {first} on", self.channel.0),
            }),
            Err(OpeningError::Newer(version)) => {
                Err(StoreError::Newer { file: file.to_owned(), version, known: VERSION })
            }
            // The opening is on disk before anything is written behind it.
            Err(OpeningError::Damaged) if is_last && length <= OPENING.into() => {
                self.disk.remove(file).map_err(failed)?;
                self.notices.push(Notice::Cut { file: file.to_owned(), offset: 0, bytes: length });
                Ok(None)
            }
            Err(OpeningError::Damaged) => Err(damaged(file, 0, "the file does not begin as a segment")),
        }
    }

    /// Writes the end of a full segment anew.
    fn seal_again(
        &mut self,
        file: &Path,
        opening: Opening,
        handle: &dyn Handle,
        scan: &Scan,
    ) -> io::Result<()> {
        let (summary, end) = seal::encode(opening.salt, &scan.index, scan.end);
        handle.set_len(scan.end.into())?;
        write_all(handle, &end, scan.end.into())?;
        handle.sync()?;
        self.notices.push(Notice::Reindexed { file: file.to_owned() });
        let bytes = u64::from(scan.end) + end.len() as u64;
        self.full.push_back(Arc::new(Full { file: file.to_owned(), opening, summary, bytes }));
        Ok(())
    }

    /// Goes on behind the last sound record of the last segment.
    fn go_on(
        &mut self,
        file: &Path,
        opening: Opening,
        handle: Arc<dyn Handle>,
        scan: Scan,
    ) -> io::Result<()> {
        if let Rest::Torn(bytes) = scan.rest {
            handle.set_len(scan.end.into())?;
            self.notices.push(Notice::Cut { file: file.to_owned(), offset: scan.end.into(), bytes });
        }
        write_again(&*handle, scan.synchronised, scan.end)?;
        let active = Active { file: file.to_owned(), opening, handle, index: scan.index };
        self.active = Some((active, scan.end));
        Ok(())
    }
}

/// Puts a part of a file on disk for certain. After a synchronisation that failed, the system may hand out what it could not write, and
/// call it written.
fn write_again(handle: &dyn Handle, from: u32, to: u32) -> io::Result<()> {
    let mut piece = vec![0; 1 << 20];
    let (mut at, to) = (u64::from(from), u64::from(to));
    while at < to {
        let wanted = piece.len().min((to - at) as usize);
        let filled = read_full(handle, &mut piece[..wanted], at)?;
        if filled == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_all(handle, &piece[..filled], at)?;
        at += filled as u64;
    }
    handle.sync()
}

fn damaged(file: &Path, offset: u64, why: &'static str) -> StoreError {
    StoreError::Damaged(Damage { file: file.to_owned(), offset, why, resume: None })
}
