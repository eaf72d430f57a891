//! The interface itself. It goes with the process.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use tokio::io::unix::AsyncFd;
use tun_rs::DeviceBuilder;

use super::addresses::Addresses;
use super::error::TunError;
use super::virtio;
use crate::intercept::echo::EchoOutlet;
use crate::intercept::kernel::{KernelError, Tool};

/// The largest packets. Programs of this host then send datagrams whole.
const MTU: u16 = 65_535;
/// Room for any packet with its header.
pub(super) const LARGEST: usize = virtio::LENGTH + 65_575;

/// The interface.
pub(super) struct Device {
    name: String,
    file: AsyncFd<OwnedFd>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Device").field(&self.name).finish()
    }
}

impl Device {
    /// Makes the interface `name` with addresses of this host, and brings it up.
    pub(super) fn create(name: &str, addresses: &Addresses, has_ipv6: bool) -> Result<Self, TunError> {
        // The kernel would hand over the interface of another, if it has no owner.
        if nix::net::if_::if_nametoindex(name).is_ok() {
            return Err(TunError::Name(name.to_owned()));
        }
        let built = DeviceBuilder::new().name(name).mtu(MTU).offload(true).build_sync();
        let device = built.map_err(|error| refused(name, error))?;
        let failed = KernelError::system("setting up a TUN interface failed");
        device.set_nonblocking(true).map_err(&failed)?;
        let ((v4, bits_v4), (v6, bits_v6)) = (addresses.own_v4(), addresses.own_v6());
        Tool::Ip.run(&format!("address add {v4}/{bits_v4} dev {name}"), "")?;
        if has_ipv6 {
            allow_ipv6(name).map_err(&failed)?;
            // Programs use it because a route says so. It is deprecated, so that nothing else takes it for a way to the
            // network.
            let alive = "nodad valid_lft forever preferred_lft 0";
            Tool::Ip.run(&format!("-6 address add {v6}/{bits_v6} dev {name} {alive}"), "")?;
        }
        filter_loosely(name).map_err(&failed)?;
        // The interface lives as long as its file is open. From here on it is read and written with the headers that it has.
        let file = device.as_fd().try_clone_to_owned().map_err(&failed)?;
        Ok(Self::of(name, file).map_err(failed)?)
    }

    /// Goes on with the interface of another process.
    pub(super) fn of(name: &str, file: OwnedFd) -> io::Result<Self> {
        #[allow(unsafe_code, reason = "the runtime cannot know whether a descriptor stays open")]
        // SAFETY: the file owns its descriptor, and nobody changes or closes it before it is dropped.
        let registered = unsafe { AsyncFd::register(file) };
        Ok(Self { name: name.to_owned(), file: registered.map_err(|error| error.into_parts().1)? })
    }

    /// Returns what another process needs to have the interface.
    pub(super) fn file(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads a packet with its header. Returns its length.
    ///
    /// # Errors
    /// The interface is gone.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.file.readable().await?;
            match ready.try_io(|file| Ok(rustix::io::read(file, &mut *buffer)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(read) => return read,
                // There is nothing more for now.
                Err(_) => {}
            }
        }
    }

    /// Writes a packet with its header, as if it had arrived here. What the kernel does not take is lost, as on a link.
    pub(super) fn write(&self, packet: &[u8]) {
        rustix::io::write(&self.file, packet).ok();
    }

    /// Writes a packet without a header, at which nothing is to be done.
    pub(super) fn write_bare(&self, packet: &[u8]) {
        self.write(&[&virtio::NOTHING[..], packet].concat());
    }
}

impl EchoOutlet for Device {
    fn answer(&self, packet: &[u8]) {
        self.write_bare(packet);
    }

    fn leave(&self, _: &[u8]) {
        // It has been led away from where it went without a proxy.
    }
}

/// Has the kernel forward what comes from the interface, for hosts behind others.
pub(super) fn forward(name: &str) -> Result<(), KernelError> {
    std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/forwarding"), "1")
        .map_err(KernelError::system("writing below /proc/sys/net failed"))
}

/// Has the kernel take packets whose sources are anywhere. The stricter of two settings holds, by number.
fn filter_loosely(name: &str) -> io::Result<()> {
    let all = std::fs::read_to_string("/proc/sys/net/ipv4/conf/all/rp_filter")?;
    let value = if all.trim() == "1" { "2" } else { "0" };
    std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), value)
}

fn allow_ipv6(name: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "0")
}

fn refused(name: &str, error: io::Error) -> TunError {
    match error.raw_os_error() {
        Some(nix::libc::EBUSY | nix::libc::EEXIST) => TunError::Name(name.to_owned()),
        Some(nix::libc::ENOENT | nix::libc::ENODEV | nix::libc::ENXIO | nix::libc::ENOTTY) => {
            TunError::NoTun(error)
        }
        _ => KernelError::system("making a TUN interface failed")(error).into(),
    }
}

/// Whether packets to an address stay on this host.
pub(super) fn is_own(addresses: &Addresses, ip: IpAddr) -> bool {
    addresses.own(ip.is_ipv4()) == ip
}
