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

fn directory() -> Result<PathBuf, NoPlace> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // According to the XDG specification, a relative path in the variable is ignored.
    let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let config = config.or_else(|| set("HOME").map(|home| home.join(".config")));
    Ok(config.ok_or(NoPlace)?.join("whimbrel"))
}
