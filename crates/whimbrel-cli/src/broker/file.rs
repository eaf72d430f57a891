//! Reading the broker's configuration file.

use std::path::Path;

use whimbrel_broker::gateway::mqtt::{Tls, TlsError, TlsFiles};
use whimbrel_broker::settings::{Settings, SettingsError};
use whimbrel_service::{read_config, refuse_setting};

use crate::process::Misused;

/// Reads a file, and refuses what cannot be.
pub(super) fn read(file: &Path) -> Result<Settings, Misused> {
    let mut settings: Settings = read_config(file).map_err(|error| Misused(error.to_string()))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    settings.mqtt.relative_to(folder);
    settings.backbone.relative_to(folder);
    settings.bridges.iter_mut().for_each(|bridge| bridge.relative_to(folder));
    let refuse = |error: SettingsError| refused_settings(file, &settings, &error);
    // The peers are among the rules.
    settings.rules().map_err(refuse)?;
    settings.permissions().map_err(refuse)?;
    let mqtt = settings.mqtt().map_err(refuse)?;
    mqtt.and_then(|plan| plan.tls).map(|files| load(&files, Some(file))).transpose()?;
    if let Some(Err(error)) = settings.nats().map_err(refuse)?.map(|nats| nats.check()) {
        return Err(unusable("backbone.nats", &error, Some(file)));
    }
    for (at, bridge) in settings.bridges().map_err(refuse)?.iter().enumerate() {
        bridge.check().map_err(|error| unusable(&format!("bridge.{at}"), &error, Some(file)))?;
    }
    Ok(settings)
}

/// Reads the files for TLS. `file` is the configuration that names them.
pub(super) fn load(files: &TlsFiles, file: Option<&Path>) -> Result<Tls, Misused> {
    Tls::load(files).map_err(|error| unusable("mqtt.tls", &error, file))
}

/// A file that a section names cannot be used. `file` is the configuration.
fn unusable(section: &str, TlsError { setting, why }: &TlsError, file: Option<&Path>) -> Misused {
    refused(file, &format!("{section}.{setting}"), why)
}

/// Settings of a file contradict each other.
pub(super) fn refused_settings(file: &Path, settings: &Settings, error: &SettingsError) -> Misused {
    refused(Some(file), &error.place(settings), &error.to_string())
}

/// A setting cannot be used. It is shown where it stands, if there is a file.
pub(super) fn refused(file: Option<&Path>, setting: &str, why: &str) -> Misused {
    let Some(file) = file else { return Misused(why.to_owned()) };
    // The file was read a moment ago.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    Misused(refuse_setting(&file.display().to_string(), &text, setting, why).to_string())
}
