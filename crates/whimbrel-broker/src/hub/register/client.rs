//! The name of a client in reports to operators.

use std::net::SocketAddr;

/// The longest text of a client that is kept for reports, bytes.
const LONGEST: usize = 128;

/// A client as reports name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its public key, or for MQTT its user and client identifier.
    pub name: String,
    /// Its address when it came.
    pub address: Option<SocketAddr>,
}

impl Client {
    /// Creates a client with this name; it keeps only what reports need.
    pub fn new(name: &str, address: Option<SocketAddr>) -> Self {
        Self { name: shortened(name), address }
    }
}

/// Returns the beginning of a text: clients choose how long theirs are.
pub(super) fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(Client::new("cod", None).name, "cod");
        let long = "ä".repeat(LONGEST);
        let cut = Client::new(&long, None).name;
        assert_eq!(cut, format!("{}…", "ä".repeat(LONGEST / 2)));
        let odd = format!("x{long}");
        assert_eq!(Client::new(&odd, None).name, format!("x{}…", "ä".repeat(LONGEST / 2 - 1)));
    }
}
