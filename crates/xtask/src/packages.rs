//! Checks what would be published, without publishing it and without the network.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::process::cargo;

/// The features of the library. It must compile with none of them, and with each alone.
pub(crate) const LIBRARY_FEATURES: [&str; 2] = ["serde", "tracing"];

/// The fields that crates.io shows or asks for.
const METADATA: [&str; 4] = ["description", "license", "readme", "rust_version"];

/// Returns what is wrong with the packages that are published.
pub(crate) fn faults() -> anyhow::Result<Vec<String>> {
    let metadata = output(&["metadata", "--no-deps", "--offline", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata prints JSON")?;
    let packages = metadata["packages"].as_array().context("there are packages")?;
    let published: BTreeSet<&str> = packages
        .iter()
        .filter(|package| package["publish"].is_null())
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut faults = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has a name")?;
        if published.contains(name) {
            let mut fault = |what: String| faults.push(format!("{name}: {what}"));
            described(package, &mut fault);
            dependencies(package, &published, &mut fault);
            let manifest = package["manifest_path"].as_str().context("a package has a manifest")?;
            let folder = Path::new(manifest).parent().context("a manifest is in a folder")?;
            let list = output(&["package", "--list", "--allow-dirty", "--offline", "--package", name])?;
            contents(folder, &list.lines().collect(), &mut fault)?;
        }
    }
    Ok(faults)
}

fn output(arguments: &[&str]) -> anyhow::Result<String> {
    let output = cargo(arguments).output().context("cannot run cargo")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "cargo {}: {errors}", arguments.join(" "));
    Ok(String::from_utf8(output.stdout)?)
}

fn described(package: &Value, fault: &mut dyn FnMut(String)) {
    for field in METADATA.into_iter().filter(|field| package[field].as_str().is_none_or(str::is_empty)) {
        fault(format!("no {field}"));
    }
    // crates.io takes at most five of each.
    for field in ["keywords", "categories"] {
        let count = package[field].as_array().map_or(0, Vec::len);
        if !(1..=5).contains(&count) {
            fault(format!("{count} {field}, not one to five"));
        }
    }
}

/// Checks that a package depends on no package of the workspace that is not published. Cargo leaves out
/// development dependencies without a version.
fn dependencies(package: &Value, published: &BTreeSet<&str>, fault: &mut dyn FnMut(String)) {
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let (name, needed) = (dependency["name"].as_str().unwrap_or_default(), &dependency["req"]);
        if dependency["path"].is_null() || dependency["kind"] == "dev" && needed == "*" {
            continue;
        }
        if !published.contains(name) {
            fault(format!("it depends on {name}, which is not published"));
        } else if needed == "*" {
            fault(format!("it depends on {name} without a version"));
        }
    }
}

/// Checks that a package has what it needs, and that nothing in it leads outside.
fn contents(folder: &Path, list: &BTreeSet<&str>, fault: &mut dyn FnMut(String)) -> anyhow::Result<()> {
    if !list.contains("README.md") {
        fault("no README.md".to_owned());
        return Ok(());
    }
    let readme = fs::read_to_string(folder.join("README.md"))?;
    for link in links(&readme).filter(|link| !list.contains(link)) {
        fault(format!("README.md leads to {link}, which is not in the package"));
    }
    for source in list.iter().filter(|file| file.ends_with(".rs") && file.starts_with("src/")) {
        let text = fs::read_to_string(folder.join(source))?;
        for included in included(without_tests(source, &text)) {
            let at = Path::new(source).parent().unwrap_or(Path::new("")).join(included);
            if !plain(&at).is_some_and(|at| list.contains(at.to_string_lossy().as_ref())) {
                fault(format!("{source} includes {included}, which is not in the package"));
            }
        }
    }
    Ok(())
}

/// The targets of Markdown links to files.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with('#'))
}

/// The part of a source file that is compiled outside tests.
fn without_tests<'a>(file: &str, text: &'a str) -> &'a str {
    let for_tests = ["/tests/", "tests.rs", "vectors.rs"].into_iter().any(|part| file.contains(part));
    if for_tests { "" } else { text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default() }
}

/// The files that a source file includes.
fn included(text: &str) -> impl Iterator<Item = &str> {
    let calls = ["include_str!(\"", "include_bytes!(\"", "include!(\""];
    let after = calls.into_iter().flat_map(|call| text.split(call).skip(1));
    after.filter_map(|rest| rest.split('"').next())
}

/// The path without `..`. None if it leads out of the package.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => plain.pop().then_some(())?,
            other => plain.push(other),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_out_of_the_package_is_none() {
        assert_eq!(plain(Path::new("src/../README.md")), Some("README.md".into()));
        assert_eq!(plain(Path::new("src/../../../README.md")), None);
    }

    #[test]
    fn links_and_inclusions_are_found() {
        let page = "See [the guide](docs/guide.md), [a site](https://example.org) and [below](#below).";
        assert_eq!(links(page).collect::<Vec<_>>(), ["docs/guide.md"]);
        let source = "const A: &str = include_str!(\"../a.md\");\n#[cfg(test)]\nmod tests {\n    include_str!(\"b\")\n}";
        assert_eq!(included(without_tests("src/a.rs", source)).collect::<Vec<_>>(), ["../a.md"]);
        assert_eq!(included(without_tests("src/a/tests.rs", source)).count(), 0);
    }
}
