//! A subscription's state in a file.
//!
//! ```text
//! "whimbrel-sub" (12 bytes)  version (2 bytes: 1)  state  checksum (4 bytes, CRC-32C)
//! ```
//!
//! The file is locked while it is in use, and replaced as a whole. Nothing else is written beside it but a draft that is moved into its
//! place.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::error::StateError;
use super::state::{ClusterId, Subscription, SubscriptionId, SubscriptionState};
use crate::codec::{sealed, unsealed};

const MAGIC: &[u8; 12] = b"whimbrel-sub";
const VERSION: u16 = 1;
/// The longest file that is read, bytes (1 MiB): a coverage, a filter and a selector take less.
const LONGEST_FILE: u64 = 1 << 20;
/// How often a file is opened again that was replaced between opening and locking.
const TRIES: u32 = 16;

/// The file of a subscription's state, locked.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    /// Holds the lock. It is the file that has the name now.
    locked: File,
}

impl StateFile {
    /// Opens and locks a file, which is created if it is missing. Returns it with the state in it; `None` if it is new.
    ///
    /// # Errors
    /// The file cannot be opened, is in use, damaged, of a newer version, or of another cluster.
    pub fn open(path: &Path, cluster: ClusterId) -> Result<(Self, Option<SubscriptionState>), StateError> {
        let mut locked = lock(path)?;
        let mut bytes = Vec::new();
        (&mut locked).take(LONGEST_FILE + 1).read_to_end(&mut bytes).map_err(|error| failed(path, error))?;
        let state = if bytes.is_empty() { None } else { Some(parse(path, &bytes)?) };
        match &state {
            Some(state) if state.cluster() != cluster => Err(StateError::OtherCluster {
                file: path.to_owned(),
                found: state.cluster(),
                expected: cluster,
            }),
            _ => Ok((Self { path: path.to_owned(), locked }, state)),
        }
    }

    /// Opens the state of `subscription`, or begins it with the name `id`. Returns also whether the file had another filter or selector.
    /// It keeps that, with its coverage, until [`StateFile::save`]: a broker may refuse the new one.
    ///
    /// # Errors
    /// As [`StateFile::open`].
    pub fn attach(
        path: &Path,
        id: SubscriptionId,
        cluster: ClusterId,
        subscription: Subscription,
    ) -> Result<(Self, SubscriptionState, bool), StateError> {
        let (mut file, found) = Self::open(path, cluster)?;
        let mut state = found.unwrap_or_else(|| SubscriptionState::new(id, cluster, subscription.clone()));
        // Of the generation, no other device may have a higher one.
        state.attach();
        file.save(&state)?;
        let changed = state.select(subscription);
        Ok((file, state, changed))
    }

    /// Replaces the file by one with `state`, on the disk when this returns.
    ///
    /// # Errors
    /// The file cannot be written; the former one is then still there.
    pub fn save(&mut self, state: &SubscriptionState) -> Result<(), StateError> {
        self.replace(&encode(state)).map_err(|error| failed(&self.path, error))
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".part");
        let draft = PathBuf::from(name);
        let written = write(&draft, bytes).and_then(|file| {
            fs::rename(&draft, &self.path)?;
            Ok(file)
        });
        match written {
            Ok(file) => self.locked = file,
            Err(error) => {
                fs::remove_file(&draft).ok();
                return Err(error);
            }
        }
        keep_name(&self.path);
        Ok(())
    }
}

/// Writes and locks a draft, so that it is locked before it has the name.
fn write(draft: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    private(&mut options);
    let mut file = options.open(draft)?;
    file.try_lock()?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(file)
}

fn lock(path: &Path) -> Result<File, StateError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    private(&mut options);
    for _ in 0..TRIES {
        let file = options.open(path).map_err(|error| failed(path, error))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(StateError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(path, error)),
            Ok(()) => {}
        }
        // Its owner may have replaced and released it in between.
        if has_the_name(&file, path).map_err(|error| failed(path, error))? {
            return Ok(file);
        }
    }
    Err(StateError::InUse(path.to_owned()))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<SubscriptionState, StateError> {
    let damaged = || StateError::Damaged(path.to_owned());
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
    let (version, _) = rest.split_first_chunk::<2>().ok_or_else(damaged)?;
    let body = unsealed(bytes).map_err(|_| damaged())?;
    match u16::from_le_bytes(*version) {
        VERSION => SubscriptionState::parse(&body[MAGIC.len() + 2..]).map_err(|_| damaged()),
        version if version > VERSION => Err(StateError::Newer { file: path.to_owned(), version }),
        _ => Err(damaged()),
    }
}

fn encode(state: &SubscriptionState) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&state.encode());
    sealed(out)
}

fn failed(path: &Path, error: io::Error) -> StateError {
    StateError::Io { file: path.to_owned(), error }
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn private(_: &mut OpenOptions) {}

#[cfg(unix)]
fn has_the_name(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (locked, named) = (file.metadata()?, fs::metadata(path));
    Ok(named.is_ok_and(|named| (named.dev(), named.ino()) == (locked.dev(), locked.ino())))
}

#[cfg(not(unix))]
fn has_the_name(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Makes the folder's new entry survive a power failure, where the file system can do that.
fn keep_name(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(folder) = File::open(folder) {
        folder.sync_all().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::{Cover, Range, Told};
    use crate::message::{BrokerId, ChannelId, Origin};

    const HERE: ClusterId = ClusterId(1);

    /// A folder of its own for a test, which is removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("whimbrel-state-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn file(&self) -> PathBuf {
            self.0.join("state")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    fn fish() -> Subscription {
        Subscription { filter: "prices/#".to_owned(), selector: Some("sector = 'fish'".to_owned()) }
    }

    fn covers(last: u64) -> Told {
        let origin = Origin { broker: BrokerId(3), epoch: 9 };
        Told::Covers(Cover { origin, range: Range { first: 1, last } })
    }

    #[test]
    fn a_state_is_there_again_after_a_restart() {
        let folder = Folder::new("again");
        let (mut file, mut state, changed) =
            StateFile::attach(&folder.file(), SubscriptionId(5), HERE, fish()).unwrap();
        assert!(!changed && state.generation() == 1);
        state.hear(ChannelId(0), &covers(40)).unwrap();
        file.save(&state).unwrap();
        drop(file);
        let (_file, again, changed) =
            StateFile::attach(&folder.file(), SubscriptionId(5), HERE, fish()).unwrap();
        assert_eq!((again.coverage(), again.generation(), changed), (state.coverage(), 2, false));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_state_in_use_is_refused() {
        let folder = Folder::new("in-use");
        let (mut file, state, _) =
            StateFile::attach(&folder.file(), SubscriptionId(5), HERE, fish()).unwrap();
        let refused = || matches!(StateFile::open(&folder.file(), HERE), Err(StateError::InUse(_)));
        assert!(refused());
        file.save(&state).unwrap();
        assert!(refused(), "the lock moves with the file");
        drop(file);
        assert!(!refused());
    }

    #[test]
    fn another_selection_covers_nothing() {
        let folder = Folder::new("selection");
        let (mut file, mut state, _) =
            StateFile::attach(&folder.file(), SubscriptionId(5), HERE, fish()).unwrap();
        state.hear(ChannelId(0), &covers(40)).unwrap();
        file.save(&state).unwrap();
        drop(file);
        let other = Subscription { selector: None, ..fish() };
        let (file, state, changed) =
            StateFile::attach(&folder.file(), SubscriptionId(5), HERE, other).unwrap();
        assert!(changed && state.coverage().of(ChannelId(0)).is_none());
        // It was not saved, so that the former selection is there still.
        drop(file);
        let (_file, state, changed) =
            StateFile::attach(&folder.file(), SubscriptionId(5), HERE, fish()).unwrap();
        assert!(!changed && state.coverage().of(ChannelId(0)).is_some());
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_reason_and_kept() {
        let folder = Folder::new("refused");
        let path = folder.file();
        let whole = encode(&SubscriptionState::new(SubscriptionId(5), HERE, fish()));
        let why = |bytes: &[u8], cluster| {
            fs::write(&path, bytes).unwrap();
            let why = StateFile::open(&path, cluster).unwrap_err().to_string();
            assert_eq!(fs::read(&path).unwrap(), bytes, "{why}");
            why
        };
        assert!(why(&whole, ClusterId(2)).contains("to cluster 00000000000000000000000000000001"));
        for length in 1..whole.len() {
            assert!(why(&whole[..length], HERE).contains("damaged"), "{length} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(why(&damaged, HERE).contains("damaged"), "bit {bit}");
        }
        let mut newer = whole[..whole.len() - 4].to_vec();
        newer[MAGIC.len()] = 2;
        assert!(why(&sealed(newer), HERE).contains("version 2"));
        assert!(why(&vec![0; 2 << 20], HERE).contains("damaged"));
    }
}
