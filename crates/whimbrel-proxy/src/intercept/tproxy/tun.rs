//! The interface into which the kernel routes SYNs that are held. It goes with the process.

use std::fs;
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};

use tokio::io::unix::AsyncFd;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::error::TproxyError;
use crate::intercept::echo::EchoOutlet;

/// The largest packet that is read. SYNs are far smaller.
const LARGEST: usize = 2_048;

/// The interface.
pub(super) struct Tun(AsyncFd<SyncDevice>);

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tun").field(self.0.get_ref().name().as_ref().unwrap_or(&String::new())).finish()
    }
}

impl Tun {
    /// Makes the interface `name`, and brings it up.
    pub(super) fn create(name: &str, has_ipv6: bool) -> Result<Self, TproxyError> {
        let failed = TproxyError::system("making a TUN interface failed; is there /dev/net/tun?");
        let device = DeviceBuilder::new().name(name).build_sync().map_err(&failed)?;
        device.set_nonblocking(true).map_err(&failed)?;
        prepare(name, has_ipv6)?;
        Self::register(device)
    }

    /// Goes on with the interface of another process.
    pub(super) fn of(file: OwnedFd) -> Result<Self, TproxyError> {
        let failed = TproxyError::system("taking over the TUN interface failed");
        #[allow(unsafe_code, reason = "the crate cannot know that it is a TUN interface")]
        // SAFETY: the descriptor is open and nobody else's from here on.
        let device = unsafe { SyncDevice::from_fd(file.into_raw_fd()) }.map_err(&failed)?;
        Self::register(device)
    }

    /// Returns what another process needs to have the interface.
    pub(super) fn file(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    fn register(device: SyncDevice) -> Result<Self, TproxyError> {
        let failed = TproxyError::system("waiting for the TUN interface failed");
        #[allow(unsafe_code, reason = "the runtime cannot know whether a descriptor stays open")]
        // SAFETY: the device owns its descriptor, and never changes or closes it before it is dropped.
        let registered = unsafe { AsyncFd::register(device) };
        Ok(Self(registered.map_err(|error| failed(error.into_parts().1))?))
    }

    /// Reads packets for ever, and hands each to `take`.
    pub(super) async fn read(&self, mut take: impl FnMut(&[u8])) -> io::Error {
        let mut buffer = vec![0; LARGEST];
        loop {
            let mut ready = match self.0.readable().await {
                Ok(ready) => ready,
                Err(error) => return error,
            };
            match ready.try_io(|device| device.get_ref().recv(&mut buffer)) {
                Ok(Ok(length)) => take(&buffer[..length]),
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return error,
                // There is nothing more for now.
                Err(_) => {}
            }
        }
    }

    /// Writes a packet, as if it had arrived here. A full queue loses it: a SYN comes again.
    pub(super) fn write(&self, packet: &[u8]) {
        self.0.get_ref().send(packet).ok();
    }
}

impl EchoOutlet for Tun {
    fn answer(&self, packet: &[u8]) {
        self.write(packet);
    }

    fn leave(&self, packet: &[u8]) {
        // A condition of its rule does not hold. It goes on as without a proxy.
        self.write(packet);
    }
}

/// Has the kernel take packets from the interface whose sources are elsewhere, and forward them.
fn prepare(name: &str, has_ipv6: bool) -> Result<(), TproxyError> {
    let set = |family: &str, what: &str, value: &str| {
        let path = format!("/proc/sys/net/{family}/conf/{name}/{what}");
        if fs::read_to_string(&path).is_ok_and(|now| now.trim() == value) {
            return Ok(());
        }
        fs::write(&path, value).map_err(TproxyError::system("writing below /proc/sys/net failed"))
    };
    set("ipv4", "rp_filter", "0")?;
    set("ipv4", "accept_local", "1")?;
    set("ipv4", "forwarding", "1")?;
    if has_ipv6 {
        set("ipv6", "disable_ipv6", "0")?;
    }
    // The stricter of both holds.
    match fs::read_to_string("/proc/sys/net/ipv4/conf/all/rp_filter") {
        Ok(all) if all.trim() == "1" => Err(TproxyError::ReversePath),
        _ => Ok(()),
    }
}
