//! The folder in which a broker stores durable data.

use std::path::PathBuf;

use crate::store::StoreSettings;

/// The store of durable channels and subscriptions.
#[derive(Clone, Debug)]
pub struct StorePlace {
    /// The folder, or why there is none.
    pub folder: Result<PathBuf, String>,
    /// The settings of the store.
    pub settings: StoreSettings,
}

impl StorePlace {
    /// Nothing is kept.
    pub fn nowhere() -> Self {
        let why = "this broker has no folder for durable subscriptions".to_owned();
        Self { folder: Err(why), settings: StoreSettings::default() }
    }
}
