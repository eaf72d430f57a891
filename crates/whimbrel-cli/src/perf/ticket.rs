//! The file in which a measurement leaves its ticket for the next.

use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, bail};
use whimbrel::Endpoint;
use whimbrel_service::private_file::{Draft, Exposure, read};
use zeroize::Zeroizing;

/// A ticket file; see the module documentation.
#[derive(Clone, Debug)]
pub(super) struct TicketFile(PathBuf);

impl TicketFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Gives the endpoint the tickets that an earlier measurement left, if any.
    pub(super) fn load(&self, endpoint: &Endpoint) -> anyhow::Result<()> {
        let path = self.0.display();
        match read(&self.0) {
            Ok((_, Exposure::Readable | Exposure::Writable)) => {
                bail!(
                    "others can read the tickets in {path}, which are as secret as the key: remove it, or run `chmod 600 {path}`"
                )
            }
            Ok((exported, Exposure::Private)) => {
                endpoint.import_tickets(&exported).with_context(|| path.to_string())?;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot read {path}")),
        }
    }

    /// Saves the endpoint's tickets, readable by the owner only: a ticket is as secret as the key.
    pub(super) fn save(&self, endpoint: &Endpoint) -> anyhow::Result<()> {
        let tickets = Zeroizing::new(endpoint.export_tickets());
        let written = Draft::begin(&self.0).and_then(|draft| draft.finish(&tickets));
        written.with_context(|| format!("cannot write {}", self.0.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn what_was_open_to_others_is_private_and_what_is_open_is_not_believed() {
        let path = std::env::temp_dir().join(format!("whimbrel-tickets-{}", std::process::id()));
        let open = || std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::write(&path, "older").unwrap();
        open();
        let endpoint = Endpoint::bind(whimbrel::Config::default(), "127.0.0.1:0").await.unwrap();
        let file = TicketFile::new(path.clone());
        file.save(&endpoint).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        file.load(&endpoint).unwrap();
        open();
        assert!(file.load(&endpoint).unwrap_err().to_string().contains("chmod 600"));
        std::fs::remove_file(&path).unwrap();
    }
}
