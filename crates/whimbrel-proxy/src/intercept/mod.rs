//! The ways in for programs' connections: SOCKS5, HTTP CONNECT, fixed forwards, and interception by TPROXY or a TUN
//! interface.

mod accept;
mod dns;
#[cfg(target_os = "linux")]
mod echo;
mod forward;
mod http_connect;
mod ingress;
mod interface;
#[cfg(target_os = "linux")]
mod kernel;
mod ruling;
#[cfg(target_os = "linux")]
mod senders;
mod socks;
mod socks_udp;
pub mod tproxy;
pub mod tun;
mod udp_program;
mod udp_programs;
mod waiting;

pub use forward::{Forward, InvalidForward};
pub use ingress::Ingress;
#[cfg(target_os = "linux")]
pub(crate) use kernel::check_rights;
#[cfg(target_os = "linux")]
pub use kernel::{KernelError, Leftovers, cleanup};
pub use socks::Users;
#[cfg(not(target_os = "linux"))]
pub use tproxy::{Leftovers, cleanup};
