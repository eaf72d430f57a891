//! Everything that new paths are made of: both ends' addresses, ids, and the attempts that are allowed.

use super::addresses::Addresses;
use super::attempts::Attempts;
use super::ids::SpareIds;
use super::path_quota::PathQuota;
use super::retired::Retired;
use super::validation::Challenges;

/// The supply for new paths.
pub(in crate::connection) struct Supply {
    pub(in crate::connection) addresses: Addresses,
    pub(in crate::connection) ids: SpareIds,
    pub(in crate::connection) retired: Retired,
    pub(in crate::connection) quota: PathQuota,
    pub(in crate::connection) attempts: Attempts,
    pub(in crate::connection) challenges: Challenges,
}

impl Supply {
    pub(in crate::connection) fn new(challenges: Challenges) -> Self {
        Self {
            addresses: Addresses::default(),
            ids: SpareIds::default(),
            retired: Retired::default(),
            quota: PathQuota::default(),
            attempts: Attempts::default(),
            challenges,
        }
    }
}
