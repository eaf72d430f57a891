//! The lock that makes a process an instance.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::error::TproxyError;
use super::names::{MOST_INSTANCES, Names};

/// An instance: names that nobody else has. The kernel takes them back when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) names: Names,
    lock: UnixListener,
}

impl Instance {
    /// An instance that another process is, too. It is one until both have let go.
    pub(super) fn of(names: Names, lock: OwnedFd) -> Self {
        Self { names, lock: lock.into() }
    }

    /// Returns what another process needs to be the same instance.
    pub(super) fn file(&self) -> io::Result<OwnedFd> {
        self.lock.as_fd().try_clone_to_owned()
    }

    /// Becomes the first instance that is not running.
    pub(super) fn claim(mark: u32) -> Result<Self, TproxyError> {
        for number in 0..MOST_INSTANCES {
            if let Some(instance) = Self::claim_number(number, mark)? {
                return Ok(instance);
            }
        }
        Err(TproxyError::TooMany)
    }

    /// Becomes this instance. `None`: it is running.
    pub(super) fn claim_number(number: u8, mark: u32) -> Result<Option<Self>, TproxyError> {
        let names = Names::new(number, mark);
        // An abstract address belongs to the network namespace, as tables and routes do.
        let bound =
            SocketAddr::from_abstract_name(names.lock()).and_then(|name| UnixListener::bind_addr(&name));
        match bound {
            Ok(lock) => Ok(Some(Self { names, lock })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(TproxyError::system("becoming an instance failed")(error)),
        }
    }
}
