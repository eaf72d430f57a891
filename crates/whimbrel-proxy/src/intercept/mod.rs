//! How programs' connections come to the proxy: SOCKS5, HTTP CONNECT, fixed forwards, and interception by TPROXY.

mod accept;
mod dns;
mod forward;
mod http_connect;
mod ingress;
mod interface;
mod ruling;
mod socks;
mod socks_udp;
pub mod tproxy;
mod udp_program;
mod waiting;

pub use forward::{Forward, InvalidForward};
pub use ingress::Ingress;
pub use socks::Users;
