//! Saving what can be read of a damaged segment.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::super::error::{Damage, StoreError};
use super::file_names::position_in;
use super::index::Index;
use super::scan::{length, next_head, read};
use super::seal;
use super::window::Window;
use crate::store::disk::{Disk, Handle, Real, private, read_full, write_all};
use crate::store::format::{HEAD, Head, Kind, OPENING, Opening, OpeningError, Salt, VERSION, parse_name};

/// The result of salvaging a damaged segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The messages that could be read. They are in the segment's file now.
    pub messages: u64,
    /// The bytes that could not.
    pub lost_bytes: u64,
    /// The new place of the damaged file.
    pub former: PathBuf,
}

/// Replaces a damaged segment file by one with what can be read of it. The damaged one stays beside it, as `….seg.damaged`. No broker may use the
/// folder meanwhile.
///
/// # Errors
/// The file is no segment, its opening is damaged, or a file cannot be written. The segment is as before then.
pub fn salvage(file: &Path) -> Result<Salvaged, StoreError> {
    let failed = |error| StoreError::io(file, error);
    let handle = Real.open(file).map_err(failed)?;
    let opening = opening(file, &*handle)?;
    let draft = beside(file, "new");
    let copied = copy(&*handle, opening, &draft);
    let (messages, lost_bytes) = copied.map_err(|error| {
        fs::remove_file(&draft).ok();
        failed(error)
    })?;
    let former = beside(file, "damaged");
    fs::rename(file, &former).and_then(|()| fs::rename(&draft, file)).map_err(failed)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    Real.sync_folder(folder).map_err(failed)?;
    Ok(Salvaged { messages, lost_bytes, former })
}

fn opening(file: &Path, handle: &dyn Handle) -> Result<Opening, StoreError> {
    let mut bytes = [0; OPENING as usize];
    read_full(handle, &mut bytes, 0).map_err(|error| StoreError::io(file, error))?;
    match Opening::parse(&bytes) {
        Ok(opening) if position_in(file).is_some() => Ok(opening),
        Err(OpeningError::Newer(version)) => {
            Err(StoreError::Newer { file: file.to_owned(), version, known: VERSION })
        }
        Ok(_) | Err(OpeningError::Damaged) => {
            let why = "nothing can be read without the beginning of the file; move the file away to go on without its messages";
            Err(StoreError::Damaged(Damage { file: file.to_owned(), offset: 0, why, resume: None }))
        }
    }
}

/// Copies all sound messages. Returns their number, and the bytes that were left out.
fn copy(from: &dyn Handle, opening: Opening, draft: &Path) -> io::Result<(u64, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    private(&mut options);
    let to = options.open(draft)?;
    let former = opening.salt;
    let opening = Opening { salt: Salt::random(), ..opening };
    write_all(&to, &opening.encode(), 0)?;
    let (mut index, mut tail) = (Index::default(), OPENING);
    let mut window = Window::new(from, length(from)?, usize::MAX);
    let (mut at, mut lost) = (OPENING, 0_u64);
    while u64::from(at) < window.end() {
        match read(&mut window, former, at)? {
            Ok((found, body)) => {
                at = found.end();
                let Some((stamp, arrived_ms)) = parse_name(body).filter(|_| found.head.kind == Kind::Message)
                else {
                    continue;
                };
                let head = Head { synchronised: OPENING, ..found.head }.encode(opening.salt, tail);
                write_all(&to, &head, tail.into())?;
                write_all(&to, body, u64::from(tail) + HEAD as u64)?;
                let end = tail + HEAD as u32 + found.head.length;
                index.note((stamp.origin, stamp.sequence), arrived_ms, tail, end);
                tail = end;
            }
            Err(_) => {
                let next = next_head(&mut window, former, at + 1)?;
                let next = next.map_or(window.end(), |found| found.offset.into());
                lost += next - u64::from(at);
                at = next as u32;
            }
        }
    }
    if index.messages() > 0 {
        let (_, end) = seal::encode(opening.salt, &index, tail);
        write_all(&to, &end, tail.into())?;
    }
    Handle::sync(&to)?;
    Ok((index.messages().into(), lost))
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    PathBuf::from(name)
}
