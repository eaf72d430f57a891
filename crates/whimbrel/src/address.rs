//! Types that name a local address to bind to, or a peer to connect to: as text or already parsed.

use std::net::SocketAddr;

use whimbrel_net::UdpSocket;
use whimbrel_proto::{Url, UrlError};

use crate::error::BindError;

mod sealed {
    pub trait Sealed {}
}

/// A socket on the address.
#[doc(hidden)]
#[derive(Debug)]
pub struct Opened {
    pub(crate) socket: UdpSocket,
    /// Whether it was opened here, with our options, and not handed over.
    pub(crate) is_ours: bool,
}

/// Something that an endpoint can be bound to: an address as text, a [`SocketAddr`], or a bound socket of the standard
/// library. `[::]:4433` means all addresses of both families, and port 0 any port.
pub trait ToSocket: sealed::Sealed {
    #[doc(hidden)]
    fn open(self) -> Result<Opened, BindError>;
}

/// Something that names a peer to connect to: `whimbrel://KEY@host:port` as text, or a parsed [`Url`].
pub trait ToUrl: sealed::Sealed {
    #[doc(hidden)]
    fn to_url(self) -> Result<Url, UrlError>;
}

impl sealed::Sealed for &str {}
impl sealed::Sealed for String {}
impl sealed::Sealed for &String {}
impl sealed::Sealed for SocketAddr {}
impl sealed::Sealed for std::net::UdpSocket {}
impl sealed::Sealed for Url {}
impl sealed::Sealed for &Url {}

impl ToSocket for &str {
    fn open(self) -> Result<Opened, BindError> {
        self.parse::<SocketAddr>().map_err(|_| BindError::Address(self.to_owned()))?.open()
    }
}

impl ToSocket for String {
    fn open(self) -> Result<Opened, BindError> {
        self.as_str().open()
    }
}

impl ToSocket for &String {
    fn open(self) -> Result<Opened, BindError> {
        self.as_str().open()
    }
}

impl ToSocket for SocketAddr {
    fn open(self) -> Result<Opened, BindError> {
        let socket = UdpSocket::bind(self).map_err(|error| BindError::System(self, error))?;
        Ok(Opened { socket, is_ours: true })
    }
}

impl ToSocket for std::net::UdpSocket {
    fn open(self) -> Result<Opened, BindError> {
        let socket = UdpSocket::from_std(self).map_err(BindError::Socket)?;
        Ok(Opened { socket, is_ours: false })
    }
}

impl ToUrl for &str {
    fn to_url(self) -> Result<Url, UrlError> {
        self.parse()
    }
}

impl ToUrl for String {
    fn to_url(self) -> Result<Url, UrlError> {
        self.parse()
    }
}

impl ToUrl for &String {
    fn to_url(self) -> Result<Url, UrlError> {
        self.parse()
    }
}

impl ToUrl for Url {
    fn to_url(self) -> Result<Url, UrlError> {
        Ok(self)
    }
}

impl ToUrl for &Url {
    fn to_url(self) -> Result<Url, UrlError> {
        Ok(self.clone())
    }
}
