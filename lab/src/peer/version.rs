//! Versions of what is measured.

use std::process::Command;

/// What this program was built with.
const LOCK: &str = include_str!("../../Cargo.lock");

/// That of a crate this program was built with; the last in order, where there are several.
pub(super) fn of_crate(name: &str) -> &'static str {
    let entry = |package: &&&str| package.lines().next() == Some(&format!("name = \"{name}\""));
    let packages: Vec<&str> = LOCK.split("[[package]]\n").collect();
    let found = packages
        .iter()
        .filter(entry)
        .filter_map(|package| package.lines().nth(1)?.strip_prefix("version = \"")?.strip_suffix('"'));
    found.max().unwrap_or("of no known version")
}

/// That of a C library, as its package says.
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
}
