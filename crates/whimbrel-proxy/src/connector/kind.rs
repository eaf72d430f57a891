//! The kinds of connectors.

use serde::{Deserialize, Serialize};

/// A way to carry a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connector {
    /// Whimbrel's transport.
    #[default]
    Whimbrel,
    /// One TCP connection, sealed by the same keys. A session ends with it; there is one path, and there are no priorities.
    Tcp,
}

impl Connector {
    /// Returns its name, as in a file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whimbrel => "whimbrel",
            Self::Tcp => "tcp",
        }
    }
}

impl std::str::FromStr for Connector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Whimbrel, Self::Tcp];
        let found = all.into_iter().find(|connector| connector.name() == text);
        found.ok_or_else(|| format!("`{text}` is not a connector: write whimbrel or tcp"))
    }
}
