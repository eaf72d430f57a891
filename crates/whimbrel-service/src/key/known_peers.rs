//! The keys of peers that were trusted on first use, one line `host:port KEY` for each peer.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use whimbrel::{PublicKey, Url};

use crate::notice::Notice;
use crate::private_file::{Exposure, make_folders, private, shut};

/// The known peers, as in their file.
#[derive(Debug)]
pub struct KnownPeers {
    path: PathBuf,
    peers: BTreeMap<String, PublicKey>,
}

/// An error from reading or writing the known peers. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnownPeersError {
    /// The system reported an error.
    #[error("cannot use the known peers in {path}: {1}; check the path, or name another file", path = .0.display())]
    System(PathBuf, io::Error),
    /// A line, counted from 1, is not `host:port KEY`.
    #[error("line {1} of {path} is not `host:port KEY`: correct or remove it", path = .0.display())]
    Line(PathBuf, usize),
    /// Others can write the file, and so decide whom we trust.
    #[error(
        "others can change which peers are known in {path}: look through it, then run `chmod 600 {path}`",
        path = .0.display()
    )]
    Exposed(PathBuf),
    /// The host is not one that can stand in the file: see [`Url::is_host`].
    #[error("{0:?} is not a host name or address: write the host without spaces, control characters and #")]
    NoHost(String),
}

impl KnownPeers {
    /// Reads the file; a missing one counts as empty. `tell` is called with [`Notice::PeersReadable`] if others can
    /// read it.
    ///
    /// # Errors
    /// The file cannot be read, others can write it, or a line is invalid.
    pub fn load(path: &Path, tell: impl Fn(Notice)) -> Result<Self, KnownPeersError> {
        match fs::metadata(path).map_or(Exposure::Private, |found| Exposure::of(&found)) {
            Exposure::Private => {}
            Exposure::Readable => tell(Notice::PeersReadable(path.to_owned())),
            Exposure::Writable => return Err(KnownPeersError::Exposed(path.to_owned())),
        }
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|error| KnownPeersError::System(path.to_owned(), error))?,
        };
        let mut peers = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || KnownPeersError::Line(path.to_owned(), at + 1);
            let (peer, key) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
            // The last line of a peer counts.
            peers.insert(peer.to_owned(), key.trim().parse().map_err(|_| wrong())?);
        }
        Ok(Self { path: path.to_owned(), peers })
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the key that a peer showed before. A key in the URL plays no part.
    pub fn key_of(&self, url: &Url) -> Option<PublicKey> {
        self.peers.get(&name(url)).copied()
    }

    /// Remembers a peer's key, in the file too, which only its owner can access from then on.
    ///
    /// # Errors
    /// The file cannot be written, or the host cannot stand in it.
    pub fn remember(&mut self, url: &Url, key: PublicKey) -> Result<(), KnownPeersError> {
        // No text parses to such a URL, but a program may have made one. It would write lines for other hosts.
        if !Url::is_host(&url.host) {
            return Err(KnownPeersError::NoHost(url.host.clone()));
        }
        let failed = |error| KnownPeersError::System(self.path.clone(), error);
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folders(folder).map_err(failed)?;
        }
        // A single write appends a whole line, even if another process appends at the same time.
        let mut options = OpenOptions::new();
        let mut file = private(options.append(true).create(true)).open(&self.path).map_err(failed)?;
        shut(&file).map_err(failed)?;
        file.write_all(format!("{} {key}\n", name(url)).as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        self.peers.insert(name(url), key);
        Ok(())
    }
}

/// The name under which a peer is remembered: as in its URL, without the key.
fn name(url: &Url) -> String {
    match url.host.contains(':') {
        true => format!("[{}]:{}", url.host, url.port),
        false => format!("{}:{}", url.host.to_ascii_lowercase(), url.port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_found_again() {
        let path = std::env::temp_dir().join(format!("whimbrel-known-peers-{}", std::process::id()));
        let url = |text: &str| text.parse::<Url>().unwrap();
        let key = whimbrel::new_identity().public();
        let mut peers = KnownPeers::load(&path, drop).unwrap();
        assert_eq!(peers.key_of(&url("whimbrel://Some.Host:7")), None);
        peers.remember(&url("whimbrel://some.host:7"), key).unwrap();
        peers.remember(&url("whimbrel://[::1]:7"), key).unwrap();
        let again = KnownPeers::load(&path, drop).unwrap();
        assert_eq!(again.key_of(&url("whimbrel://Some.Host:7")), Some(key));
        assert_eq!(again.key_of(&url("whimbrel://[::1]:7")), Some(key));
        assert_eq!(again.key_of(&url("whimbrel://some.host:8")), None);
        fs::write(&path, "# mine\n\nsome.host:7 nonsense\n").unwrap();
        assert!(KnownPeers::load(&path, drop).unwrap_err().to_string().starts_with("line 3 of"));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn regression_a_host_writes_no_line_of_another_host() {
        let path = std::env::temp_dir().join(format!("whimbrel-known-peers-lines-{}", std::process::id()));
        let (theirs, evil) = (whimbrel::new_identity().public(), whimbrel::new_identity().public());
        let bank: Url = "whimbrel://bank.example:4433".parse().unwrap();
        let mut peers = KnownPeers::load(&path, drop).unwrap();
        peers.remember(&bank, theirs).unwrap();
        let lines = format!("evil.example {evil}\nbank.example:4433 {evil}\n#");
        for host in [&lines, "some host", "#host", "host\r", "host\u{85}", ""] {
            assert!(format!("whimbrel://[{host}]:7").parse::<Url>().is_err(), "{host:?}");
            let url = Url { key: None, host: host.to_owned(), port: 7 };
            let error = peers.remember(&url, evil).unwrap_err();
            assert!(matches!(&error, KnownPeersError::NoHost(named) if named == host), "{error}");
            assert_eq!(peers.key_of(&url), None);
        }
        assert_eq!(KnownPeers::load(&path, drop).unwrap().key_of(&bank), Some(theirs));
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("bank.example:4433 {theirs}\n"));
        fs::remove_file(&path).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn regression_the_folder_that_is_made_is_its_owners_only() {
        use std::os::unix::fs::PermissionsExt;
        let place = std::env::temp_dir().join(format!("whimbrel-known-peers-folder-{}", std::process::id()));
        let path = place.join("whimbrel").join("known_peers");
        let url: Url = "whimbrel://some.host:7".parse().unwrap();
        let key = whimbrel::new_identity().public();
        KnownPeers::load(&path, drop).unwrap().remember(&url, key).unwrap();
        for folder in [&place, &place.join("whimbrel")] {
            let mode = fs::metadata(folder).unwrap().permissions().mode() & 0o777;
            assert_eq!(format!("{mode:o}"), "700", "{folder:?}");
        }
        fs::remove_dir_all(&place).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn what_others_can_write_is_not_believed_and_what_is_written_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("whimbrel-known-peers-mode-{}", std::process::id()));
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let url: Url = "whimbrel://some.host:7".parse().unwrap();
        let key = whimbrel::new_identity().public();
        KnownPeers::load(&path, drop).unwrap().remember(&url, key).unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        assert!(KnownPeers::load(&path, drop).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let mut peers = KnownPeers::load(&path, drop).unwrap();
        assert_eq!(peers.key_of(&url), Some(key));
        peers.remember(&url, key).unwrap();
        assert_eq!(mode(), 0o600);
        fs::remove_file(&path).unwrap();
    }
}
