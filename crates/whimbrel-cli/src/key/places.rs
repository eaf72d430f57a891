//! The default places of keys.

use std::path::PathBuf;

use anyhow::Context;

/// Returns `$XDG_CONFIG_HOME/whimbrel/key`, or `~/.config/whimbrel/key`.
///
/// # Errors
/// Neither variable is set.
pub fn default_key_file() -> anyhow::Result<PathBuf> {
    Ok(directory()?.join("key"))
}

/// Returns the file `known_peers` beside the key.
///
/// # Errors
/// See [`default_key_file`].
pub fn default_known_peers_file() -> anyhow::Result<PathBuf> {
    Ok(directory()?.join("known_peers"))
}

fn directory() -> anyhow::Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // According to the XDG specification, a relative path in the variable is ignored.
    let config = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let config = config.or_else(|| set("HOME").map(|home| home.join(".config")));
    let config =
        config.context("neither XDG_CONFIG_HOME nor HOME is set: name the file on the command line")?;
    Ok(config.join("whimbrel"))
}
