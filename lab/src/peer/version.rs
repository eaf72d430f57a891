//! Versions of the software under measurement.

use std::process::Command;

/// Lock file that this program was built with.
const LOCK: &str = include_str!("../../Cargo.lock");

/// Returns the version of a crate that this program was built with, the newest if there are several.
pub(super) fn of_crate(name: &str) -> &'static str {
    newest(name, LOCK).unwrap_or("of no known version")
}

fn newest<'a>(name: &str, lock: &'a str) -> Option<&'a str> {
    let entry = |package: &&&str| package.lines().next() == Some(&format!("name = \"{name}\""));
    let packages: Vec<&str> = lock.split("[[package]]\n").collect();
    let found = packages
        .iter()
        .filter(entry)
        .filter_map(|package| package.lines().nth(1)?.strip_prefix("version = \"")?.strip_suffix('"'));
    found.max_by_key(|version| numbers(version))
}

/// Returns the numbers of a version, to compare it by. As text, 0.9 would be newer than 0.11.
fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// Returns the version of a C library according to `pkg-config`.
pub(super) fn of_library(name: &str) -> String {
    let output = Command::new("pkg-config").args(["--modversion", name]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "of no known version".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_have_versions() {
        for name in ["quinn", "noq", "rustls", "whimbrel"] {
            assert!(
                of_crate(name).split('.').filter_map(|part| part.parse::<u32>().ok()).count() == 3,
                "{name}"
            );
        }
        assert_eq!(of_crate("no such crate"), "of no known version");
    }

    #[test]
    fn of_several_versions_the_newest_counts() {
        let lock = ["0.9.4", "0.11.0", "0.10.12"]
            .map(|version| format!("[[package]]\nname = \"rand\"\nversion = \"{version}\"\n\n"));
        assert_eq!(newest("rand", &lock.concat()), Some("0.11.0"));
    }
}
