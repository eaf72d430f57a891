//! Interception by a TUN interface on Linux, for hosts without nft: what programs send to some networks is routed into
//! the interface, and so to this process.
//!
//! A packet is read with the header by which the kernel leaves work undone (`virtio`): segments of 64 KiB stay whole, and
//! their checksums need not be known. TCP goes to the kernel's own TCP, by new addresses (`nat`, `kernel_tcp`), or to one
//! of this process (`userspace`); a SYN waits at the gate before. Datagrams are taken apart and put together here (`udp`).
//! The interface, its routes and the lock on an instance's names go with the process. Rules stay after a kill, and
//! [`cleanup`](super::cleanup) finds them by their numbers.

#[cfg(target_os = "linux")]
mod addresses;
#[cfg(target_os = "linux")]
mod checksum;
#[cfg(target_os = "linux")]
mod device;
mod error;
#[cfg(target_os = "linux")]
mod fragments;
#[cfg(target_os = "linux")]
mod interception;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod kernel_tcp;
#[cfg(target_os = "linux")]
mod nat;
#[cfg(not(target_os = "linux"))]
mod nowhere;
#[cfg(target_os = "linux")]
mod packet;
mod parts;
#[cfg(target_os = "linux")]
mod pump;
#[cfg(target_os = "linux")]
mod routes;
mod settings;
#[cfg(target_os = "linux")]
mod stack;
#[cfg(target_os = "linux")]
mod udp;
#[cfg(target_os = "linux")]
mod userspace;
#[cfg(target_os = "linux")]
mod virtio;

pub use error::TunError;
#[cfg(target_os = "linux")]
pub use interception::TunInterception;
#[cfg(target_os = "linux")]
pub(crate) use kernel_tcp::Claim;
#[cfg(not(target_os = "linux"))]
pub(crate) use nowhere::Claim;
#[cfg(not(target_os = "linux"))]
pub use nowhere::TunInterception;
pub(crate) use parts::{TunNote, TunParts};
pub use settings::{Stack, TunMistake, TunSettings};
