//! The four services under their short names.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use whimbrel::Service;

/// A service under its short name.
#[derive(ValueEnum, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServiceName {
    /// Reliable, sequenced.
    Rs,
    /// Reliable, unsequenced.
    Ru,
    /// Unreliable, sequenced.
    Us,
    /// Unreliable, unsequenced.
    Uu,
}

impl From<ServiceName> for Service {
    fn from(name: ServiceName) -> Self {
        match name {
            ServiceName::Rs => Self::ReliableSequenced,
            ServiceName::Ru => Self::ReliableUnsequenced,
            ServiceName::Us => Self::UnreliableSequenced,
            ServiceName::Uu => Self::UnreliableUnsequenced,
        }
    }
}
