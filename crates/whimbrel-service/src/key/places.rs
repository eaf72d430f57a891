//! The default places of keys.

use std::path::PathBuf;

/// No default place is known, because neither `XDG_CONFIG_HOME` nor `HOME` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither XDG_CONFIG_HOME nor HOME is set: name the file on the command line")]
pub struct NoPlace;

/// Returns `$XDG_CONFIG_HOME/whimbrel/key`, or `~/.config/whimbrel/key`. The file need not exist.
///
/// # Errors
/// Neither variable is set.
pub fn default_key_file() -> Result<PathBuf, NoPlace> {
    Ok(directory()?.join("key"))
}

/// Returns the file `known_peers` beside the key. It need not exist.
///
/// # Errors
/// See [`default_key_file`].
pub fn default_known_peers_file() -> Result<PathBuf, NoPlace> {
    Ok(directory()?.join("known_peers"))
}

/// Neither `XDG_STATE_HOME` nor `HOME` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither XDG_STATE_HOME nor HOME is set: set one of them, or name the folder")]
pub struct NoStatePlace;

/// Returns `$XDG_STATE_HOME/whimbrel`, or `~/.local/state/whimbrel`, for what a program keeps on its own. The folder need not exist.
///
/// # Errors
/// Neither variable is set.
pub fn default_state_folder() -> Result<PathBuf, NoStatePlace> {
    let state = set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| set("HOME").map(|home| home.join(".local/state")));
    Ok(state.ok_or(NoStatePlace)?.join("whimbrel"))
}

fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn directory() -> Result<PathBuf, NoPlace> {
    // According to the XDG specification, a relative path in the variable is ignored.
    let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let config = config.or_else(|| set("HOME").map(|home| home.join(".config")));
    Ok(config.ok_or(NoPlace)?.join("whimbrel"))
}
