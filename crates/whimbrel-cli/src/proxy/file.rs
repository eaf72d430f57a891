//! Reading the proxy's configuration file.

use std::path::Path;

use whimbrel_proxy::relay::Dictionaries;
use whimbrel_proxy::{Settings, SettingsError};
use whimbrel_service::{read_config, refuse_setting};

use crate::process::Misused;

/// Reads a file. Options of the command line may complete it.
pub(super) fn parse(file: &Path) -> Result<Settings, Misused> {
    let settings: Settings = read_config(file).map_err(|error| Misused(error.to_string()))?;
    if let Err(error) = Dictionaries::read(&settings.dictionaries) {
        // An empty text has no place to show.
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let setting = format!("dictionaries.{}", error.name);
        let refused = refuse_setting(&file.display().to_string(), &text, &setting, &error.to_string());
        return Err(Misused(refused.to_string()));
    }
    Ok(settings)
}

/// Reads a file and checks it.
pub(super) fn read(file: &Path) -> Result<Settings, Misused> {
    let settings = parse(file)?;
    settings.check().map_err(|error| refused(file, &settings, &error))?;
    Ok(settings)
}

/// Returns the error for settings that a file has. It shows where they are, if they are in one place.
pub(super) fn refused(file: &Path, settings: &Settings, error: &SettingsError) -> Misused {
    let Some(place) = error.place(settings) else {
        return Misused(format!("{}: {error}", file.display()));
    };
    // An empty text has no place to show.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    Misused(refuse_setting(&file.display().to_string(), &text, &place, &error.to_string()).to_string())
}
