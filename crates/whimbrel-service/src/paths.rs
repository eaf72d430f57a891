//! The addresses of this host that an endpoint may use.

use std::io;
use std::net::{IpAddr, UdpSocket};

use whimbrel::{LocalPath, Paths};

/// An address that this host does not have now, so that it is used once it appears.
#[derive(Debug, thiserror::Error)]
#[error("{address}: not an address of this host now ({error})")]
pub struct AbsentPath {
    /// The address.
    pub address: IpAddr,
    /// The system's error.
    pub error: io::Error,
}

/// This host has none of the addresses now.
#[derive(Debug, thiserror::Error)]
#[error("{}; `ip address` lists them", .0.iter().map(AbsentPath::to_string).collect::<Vec<_>>().join("; "))]
pub struct NoPath(pub Vec<AbsentPath>);

/// Returns the [`Paths`] that a list of addresses stands for, and those of the addresses that this host does not have
/// now. An empty list stands for [`Paths::Auto`].
///
/// # Errors
/// This host has none of the addresses now: at least one must be there at the start.
pub fn local_paths(list: &[LocalPath]) -> Result<(Paths, Vec<AbsentPath>), NoPath> {
    if list.is_empty() {
        return Ok((Paths::Auto, Vec::new()));
    }
    let absent: Vec<AbsentPath> = list.iter().filter_map(absent).collect();
    if absent.len() == list.len() {
        return Err(NoPath(absent));
    }
    Ok((Paths::Only(list.to_vec()), absent))
}

fn absent(path: &LocalPath) -> Option<AbsentPath> {
    let error = UdpSocket::bind((path.address, 0)).err()?;
    Some(AbsentPath { address: path.address, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_to_be_there_and_none_stand_for_all() {
        let [here, absent] = ["127.0.0.1", "203.0.113.77"].map(|text| text.parse::<LocalPath>().unwrap());
        let (paths, missing) = local_paths(&[here, absent]).unwrap();
        assert_eq!(paths, Paths::Only(vec![here, absent]));
        assert!(missing.len() == 1 && missing[0].address == absent.address, "{missing:?}");
        let none = local_paths(&[absent]).unwrap_err().to_string();
        assert!(none.starts_with("203.0.113.77: not an address") && none.contains("`ip address`"), "{none}");
        assert_eq!(local_paths(&[]).unwrap().0, Paths::Auto);
    }
}
