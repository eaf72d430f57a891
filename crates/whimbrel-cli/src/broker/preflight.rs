//! Checks the keys and the store as a broker would find them when it starts. Nothing is created or changed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use whimbrel::{PublicKey, new_identity};
use whimbrel_broker::settings::Settings;
use whimbrel_broker::store::{MetaError, Store, StoreError};
use whimbrel_service::key::{KeyFileError, default_key_file, load, read_psk};

use super::file::{refused, refused_settings};
use crate::process::Misused;

/// Checks what the settings of a file name. Whether ports are free is not asked: they may be the running broker's.
pub(super) fn check(file: &Path, settings: &Settings) -> Result<(), Misused> {
    let refuse = |setting: &str, why: &str| refused(Some(file), setting, why);
    let own = own_key(settings.listen.key.as_deref());
    let own = own.map_err(|error| refuse("listen.key", &error.to_string()))?;
    if let Some(own) = &own {
        settings.check_owner(own).map_err(|error| refused_settings(file, settings, &error))?;
    }
    let psk = settings.listen.psk.as_deref();
    read_psk(psk).map_err(|error| refuse("listen.psk", &error.to_string()))?;
    let (control, activity) = (&settings.service.control, &settings.service.activity);
    let activity = activity.as_ref().map(|activity| &activity.path);
    for (setting, path) in [("control", control.as_ref()), ("activity", activity)] {
        let folder = path.and_then(|path| path.parent()).filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let why =
                format!("there is no folder {}: make it first, or choose another path", folder.display());
            return Err(refuse(&format!("service.{setting}"), &why));
        }
    }
    let Some((setting, folder)) = store(settings, own) else { return Ok(()) };
    let checked = folder.and_then(|folder| usable(&folder, settings));
    checked.map_err(|why| refuse(&setting, &why))
}

/// Reads the broker's key. `None`: it is made at the start.
fn own_key(file: Option<&Path>) -> Result<Option<PublicKey>, KeyFileError> {
    let path = file.map_or_else(default_key_file, |file| Ok(file.to_owned()))?;
    match load(&path) {
        Ok(identity) => Ok(Some(identity.public())),
        Err(KeyFileError::Missing(_)) => {
            // Only folders of the default place are made.
            let folder = file.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
            match folder {
                Some(folder) if !folder.is_dir() => Err(KeyFileError::NoFolder(folder.to_owned())),
                _ => Ok(None),
            }
        }
        Err(error) => Err(error),
    }
}

/// Returns the folder of the store, or why there is none, and the setting that wants it. `None`: nothing needs one yet.
fn store(settings: &Settings, own: Option<PublicKey>) -> Option<(String, Result<PathBuf, String>)> {
    let mut wants =
        settings.channels.iter().enumerate().filter_map(|(at, channel)| match channel.keep_retained {
            _ if channel.durable => Some(format!("channel.{at}.durable")),
            Some(true) => Some(format!("channel.{at}.keep_retained")),
            _ => None,
        });
    let setting = match &settings.store.folder {
        Some(_) => "store.folder".to_owned(),
        None => wants.next()?,
    };
    // A new key has a new folder.
    let own = own.unwrap_or_else(|| new_identity().public());
    Some((setting, settings.store.place(&own).folder))
}

/// Checks that the store can be opened.
fn usable(folder: &Path, settings: &Settings) -> Result<(), String> {
    match Store::check(folder) {
        Ok(()) => Ok(()),
        Err(MetaError::Store(StoreError::InUse(_))) if runs(settings) => Ok(()),
        Err(error @ MetaError::Store(StoreError::InUse(_))) => Err(format!(
            "{error}. If that is the running broker of this file, set its `control` under [service]: the check recognises it by that"
        )),
        Err(error) if is_denied(&error) => Err(format!("{error}; or check as the user that runs the broker")),
        Err(error) => Err(error.to_string()),
    }
}

fn is_denied(error: &MetaError) -> bool {
    matches!(error, MetaError::Store(StoreError::Io { error, .. }) if error.kind() == ErrorKind::PermissionDenied)
}

/// Whether the broker of these settings runs: it answers on its control socket.
#[cfg(unix)]
fn runs(settings: &Settings) -> bool {
    let control = settings.service.control.as_ref();
    control.is_some_and(|control| std::os::unix::net::UnixStream::connect(control).is_ok())
}

#[cfg(not(unix))]
fn runs(_: &Settings) -> bool {
    false
}
