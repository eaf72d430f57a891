//! The networks of the host, as an endpoint knows them.

use std::sync::{Arc, Mutex, OnceLock};

use tokio::task::AbortHandle;
use whimbrel_net::{HostAddress, host_addresses};

use crate::local_socket::LocalSockets;
use crate::lock::lock;

/// The host's addresses, the task that follows them, and the sockets bound to single ones.
#[derive(Default)]
pub(crate) struct Networks {
    host: Mutex<Arc<[HostAddress]>>,
    watch: OnceLock<AbortHandle>,
    pub(crate) sockets: LocalSockets,
}

impl Drop for Networks {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get() {
            watch.abort();
        }
    }
}

impl Networks {
    /// Returns this host's addresses. The first call has `follow` start to watch them for changes.
    pub(crate) fn host(&self, follow: impl FnOnce() -> AbortHandle) -> Arc<[HostAddress]> {
        self.watch.get_or_init(follow);
        Arc::clone(&lock(&self.host))
    }

    /// Looks at the host's addresses again. If the system does not answer, the known addresses are kept.
    pub(crate) fn look(&self) {
        if let Ok(addresses) = host_addresses() {
            *lock(&self.host) = addresses.into();
        }
    }
}
