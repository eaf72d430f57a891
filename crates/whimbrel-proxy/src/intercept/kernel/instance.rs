//! The lock that makes a process an instance.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::error::KernelError;
use super::names::{MOST_INSTANCES, Names};

/// An instance: names that nobody else has. The kernel takes them back when the process ends, however it ends.
#[derive(Debug)]
pub(in crate::intercept) struct Instance {
    pub(in crate::intercept) names: Names,
    lock: UnixListener,
}

impl Instance {
    /// An instance that another process is, too. It is one until both have let go.
    pub(in crate::intercept) fn of(names: Names, lock: OwnedFd) -> Self {
        Self { names, lock: lock.into() }
    }

    /// Returns what another process needs to be the same instance.
    pub(in crate::intercept) fn file(&self) -> io::Result<OwnedFd> {
        self.lock.as_fd().try_clone_to_owned()
    }

    /// Becomes the first instance that is not running.
    pub(in crate::intercept) fn claim(mark: u32) -> Result<Self, KernelError> {
        for number in 0..MOST_INSTANCES {
            if let Some(instance) = Self::claim_number(number, mark)? {
                return Ok(instance);
            }
        }
        Err(KernelError::TooMany)
    }

    /// Becomes this instance. `None`: it is running.
    pub(in crate::intercept) fn claim_number(number: u8, mark: u32) -> Result<Option<Self>, KernelError> {
        let names = Names::new(number, mark);
        // An abstract address belongs to the network namespace, as tables and routes do.
        let bound =
            SocketAddr::from_abstract_name(names.lock()).and_then(|name| UnixListener::bind_addr(&name));
        match bound {
            Ok(lock) => Ok(Some(Self { names, lock })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(KernelError::system("becoming an instance failed")(error)),
        }
    }
}
