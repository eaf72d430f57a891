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

#[cfg(test)]
mod tests {
    use whimbrel_service::parse_config;

    use super::*;

    #[test]
    fn regression_what_is_of_the_wrong_kind_is_told_with_what_fits() {
        for (text, wanted) in [
            (
                "[peer]\nname = 'a'",
                "1:1: `[peer]` is one section, and there may be several of them: write [[peer]]",
            ),
            (
                "[rule]\nname = 'a'",
                "1:1: `[rule]` is one section, and there may be several of them: write [[rule]]",
            ),
            (
                "[[in]]\nsocks = '127.0.0.1:1'",
                "1:1: `[[in]]` is one of several sections, and there is only one: write [in]",
            ),
            ("peer = 'a'", "1:8: `'a'` is not allowed here: write sections that begin with [[peer]]"),
            (
                "[[peer]]\nmode = 5",
                "2:8: `5` is not one of the words allowed here: write \"both\", \"active\" or \"passive\"",
            ),
            (
                "[[peer]]\nmode = 'actve'",
                "2:8: `'actve'` is not one of the words allowed here: write \"both\", \"active\" or",
            ),
            (
                "[[rule]]\nname = 'r'\naction = 'deny'",
                "3:10: `'deny'` is not one of the words allowed here: write \"carry\", \"direct\", \"reject\", \"drop\" or \"hold\"",
            ),
            ("[in]\nsock = '127.0.0.1:1'", "2:1: unknown setting `sock`: write `socks`, if you mean that"),
            ("[limits]\nconnect_timeout = 5", "2:19: `5` is not a duration: write a number and a unit"),
            (
                "limits = 5",
                "1:10: `5` is not allowed here: write a section with settings of its own, [limits] or { … }, such as",
            ),
            ("[limits]\nmax_flows = '5'", "2:13: `'5'` is not allowed here: write a whole number, 0 or more"),
        ] {
            let said = parse_config::<Settings>("p.toml", text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("p.toml:{wanted}")), "{text}: {said}");
        }
    }
}
