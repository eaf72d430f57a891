//! Listening: which key to use, and where.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use whimbrel::{Config, DEFAULT_PORT, Endpoint, PublicKey, Url};

use crate::bind::{BindFailed, bind, bind_both_families};
use crate::key::{KeyFileError, NoPlace, PskError, ResetSalt, default_key_file, own_or_temporary, read_psk};
use crate::notice::Notice;

/// The address that a program listens on, and its identity. Everything else is in [`config`](field@ListenOptions::config).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ListenOptions {
    /// The address and port. Port 0 takes any free one. Default: all addresses of both families, port 4433; of IPv4
    /// only on a machine without IPv6.
    pub address: Option<SocketAddr>,
    /// The key file. Default: [`default_key_file`] if that file exists, otherwise a key for this process only. With a
    /// key file and a port that is not 0, the file `KEY.salt-ADDRESS-PORT` is kept beside the key and locked as long
    /// as the process lives. It lets peers notice a restart at once.
    pub key: Option<PathBuf>,
    /// The file with a pre-shared key. Default: see [`read_psk`].
    pub psk: Option<PathBuf>,
    /// The configuration of the endpoint. Its `identity`, `psk` and `reset_salt` are overwritten, and its `listen` is
    /// set if it is `None`.
    pub config: Config,
}

impl ListenOptions {
    /// Options to listen with this configuration and the defaults otherwise.
    pub fn new(config: Config) -> Self {
        Self { config, ..Self::default() }
    }

    /// Sets [`address`](field@ListenOptions::address).
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Sets [`key`](field@ListenOptions::key).
    #[must_use]
    pub fn key(mut self, file: impl Into<PathBuf>) -> Self {
        self.key = Some(file.into());
        self
    }

    /// Sets [`psk`](field@ListenOptions::psk).
    #[must_use]
    pub fn psk(mut self, file: impl Into<PathBuf>) -> Self {
        self.psk = Some(file.into());
        self
    }

    /// Opens the socket. `tell` is called with what people should know.
    ///
    /// # Errors
    /// The key or the pre-shared key cannot be used, or the system refuses the address.
    pub async fn listen(self, tell: impl Fn(Notice)) -> Result<Listening, ListenError> {
        let (identity, temporary) = own_or_temporary(self.key.as_deref())?;
        if temporary {
            tell(Notice::TemporaryKey);
        }
        let psk = read_psk(self.psk.as_deref())?;
        let salt = if temporary { None } else { self.reset_salt()? };
        let reset_salt = salt.as_ref().and_then(ResetSalt::value);
        let mut config = self.config.identity(identity).psk(psk).reset_salt(reset_salt);
        config.listen.get_or_insert_default();
        let bound = match self.address {
            Some(address) => bind(config, address).await,
            None => bind_both_families(config, DEFAULT_PORT).await,
        };
        // A process that cannot listen leaves no file behind, and reports only why.
        if let Some(salt) = salt {
            if bound.is_ok() { salt.keep(&tell) } else { salt.discard() }
        }
        let endpoint = bound?;
        let mut address = endpoint.local_addr().map_err(ListenError::Address)?;
        // People need an address to connect to, even if it works only on this machine.
        if address.ip().is_unspecified() {
            let loopback =
                if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            address.set_ip(loopback);
            tell(Notice::AllAddresses);
        }
        let url = url(endpoint.public_key(), address);
        Ok(Listening { endpoint, url })
    }

    /// Takes the salt of reset tokens, stored beside the key.
    fn reset_salt(&self) -> Result<Option<ResetSalt>, NoPlace> {
        let key = self.key.clone().map_or_else(default_key_file, Ok)?;
        let address = self.address.unwrap_or((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT).into());
        Ok(ResetSalt::take(&key, address))
    }
}

/// An endpoint that listens.
#[derive(Debug)]
pub struct Listening {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The URL to connect to. If the endpoint listens on all addresses, it names loopback.
    pub url: Url,
}

/// An error from listening. Each message says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The key file cannot be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The place of the reset salt is not known.
    #[error(transparent)]
    Place(#[from] NoPlace),
    /// The pre-shared key cannot be used.
    #[error(transparent)]
    Psk(#[from] PskError),
    /// The address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindFailed),
    /// The system does not tell which address was bound.
    #[error(transparent)]
    Address(io::Error),
}

fn url(key: PublicKey, address: SocketAddr) -> Url {
    let host = match address {
        SocketAddr::V6(address) if address.scope_id() != 0 => {
            format!("{}%{}", address.ip(), address.scope_id())
        }
        _ => address.ip().to_string(),
    };
    Url { key: Some(key), host, port: address.port() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_the_key_and_the_address_as_people_write_it() {
        let key = whimbrel::new_identity().public();
        for text in ["192.0.2.7:4433", "[::1]:7", "[fe80::1%3]:7"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(url(key, address).to_string(), format!("whimbrel://{key}@{text}"));
        }
    }
}
