//! `--allow KEY=PERMIT,…`: who may open what.

use std::str::FromStr;

use whimbrel::PublicKey;
use whimbrel_proxy::policy::Permit;

/// A peer, and what it may open.
#[derive(Clone, Debug)]
pub(super) struct Allowed {
    pub(super) key: PublicKey,
    pub(super) permits: Vec<Permit>,
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, permits) = text
            .split_once('=')
            .ok_or("write KEY=NETWORK:PORTS, for example KEY=0.0.0.0/0:443; `whimbrel key show` prints the peer's KEY there")?;
        let key = key.parse().map_err(|error| format!("{error}"))?;
        let permits = permits.split(',').map(|permit| permit.parse().map_err(|error| format!("{error}")));
        Ok(Self { key, permits: permits.collect::<Result<_, String>>()? })
    }
}
