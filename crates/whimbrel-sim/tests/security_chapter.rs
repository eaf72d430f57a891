//! Checks that the specification's security chapter names a test for each of its guarantees, that the table of attacks
//! does so, and that the tests exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The rows of the chapter's tables.
fn promises() -> Vec<(String, String)> {
    let text = fs::read_to_string(crates().join("../docs/protocol.md")).expect("the sources are there");
    let chapter = text.split("\n## ").find(|part| part.starts_with("6. Security")).expect("a chapter 6");
    rows(chapter.lines())
}

/// The rows of the table of attacks.
fn attacks() -> Vec<(String, String)> {
    let text = fs::read_to_string(crates().join("whimbrel-sim/tests/attacks/main.rs"));
    let text = text.expect("the sources are there");
    rows(text.lines().filter_map(|line| line.strip_prefix("//! ")))
}

/// The first and the last cell of each row, without the tables' heads: what it is about, and by which tests it is held.
fn rows<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let lines: Vec<&str> = lines.collect();
    let rows = lines.iter().enumerate().filter(|(_, line)| line.starts_with("| "));
    let rows = rows.filter(|(at, _)| !lines.get(at + 1).is_some_and(|next| next.starts_with("|---")));
    rows.map(|(_, line)| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        (cells[0].to_owned(), cells[cells.len() - 1].to_owned())
    })
    .collect()
}

/// The tests that a cell names, and the modules of tests, which it names by their path.
fn tests_in(cell: &str) -> impl Iterator<Item = String> {
    let quoted = cell.split('`').skip(1).step_by(2).filter(|name| name.contains('_') || name.contains("::"));
    quoted.map(|name| name.rsplit("::").next().unwrap_or(name).to_owned())
}

fn is_held(cell: &str) -> bool {
    let is_excused = cell.split_once("no test: ").is_some_and(|(_, why)| !why.is_empty());
    is_excused || tests_in(cell).next().is_some()
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
fn each_test_that_is_named_exists() {
    let mut source = String::new();
    collect(&crates(), &mut source);
    let names: BTreeSet<String> =
        [promises(), attacks()].iter().flatten().flat_map(|(_, cell)| tests_in(cell)).collect();
    assert!(names.len() > 100, "only {} tests are named", names.len());
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !source.contains(&format!("fn {name}(")) && !source.contains(&format!("mod {name};")))
        .filter(|name| !crates().join(format!("whimbrel-sim/tests/{name}.rs")).exists())
        .collect();
    assert!(missing.is_empty(), "tests are named that do not exist: {missing:?}");
}

#[test]
fn each_promise_and_attack_is_held_by_a_test_or_says_why_not() {
    for (table, least) in [(promises(), 30), (attacks(), 20)] {
        assert!(table.len() > least, "only {} rows", table.len());
        let bare: Vec<_> = table.iter().filter(|(_, cell)| !is_held(cell)).collect();
        assert!(bare.is_empty(), "neither a test nor `no test: why`: {bare:#?}");
    }
}
