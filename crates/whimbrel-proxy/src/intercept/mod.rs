//! How programs' connections come to the proxy: SOCKS5, HTTP CONNECT and fixed forwards.

mod accept;
mod forward;
mod http_connect;
mod ingress;
mod socks;
mod socks_udp;

pub use forward::{Forward, InvalidForward};
pub use ingress::Ingress;
pub use socks::Users;
