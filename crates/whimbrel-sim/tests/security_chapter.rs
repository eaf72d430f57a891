//! Checks that the tests exist that the specification's security chapter names for its guarantees.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names in the last column of the chapter's tables.
fn named() -> BTreeSet<String> {
    let text = fs::read_to_string(crates().join("../docs/protocol.md")).expect("the sources are there");
    let chapter = text.split("\n## ").find(|part| part.starts_with("6. Security")).expect("a chapter 6");
    let rows = chapter.lines().filter(|line| line.starts_with("| ") && !line.starts_with("|---"));
    let last = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let quoted = last.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    quoted.filter(|name| name.contains('_')).map(str::to_owned).collect()
}

fn collect(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("the sources are there").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push_str(&fs::read_to_string(&path).expect("the sources are there"));
        }
    }
}

#[test]
fn each_promise_names_a_test_that_exists() {
    let mut source = String::new();
    collect(&crates(), &mut source);
    let names = named();
    assert!(names.len() > 30, "only {} tests are named", names.len());
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !source.contains(&format!("fn {name}(")) && !source.contains(&format!("mod {name};")))
        .filter(|name| !crates().join(format!("whimbrel-sim/tests/{name}.rs")).exists())
        .collect();
    assert!(missing.is_empty(), "docs/protocol.md names tests that do not exist: {missing:?}");
}
