//! Checks the module rules of ARCHITECTURE.md: nouns do not import the coordinator, so no import cycle exceeds three
//! files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The most files that may import one another, directly or indirectly.
const MOST: usize = 3;

type Names = Vec<String>;

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("sources are there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
}

/// The module path of a file: its path below `src`.
fn module(file: &Path, root: &Path) -> Names {
    let below = file.strip_prefix(root).expect("below the root").with_extension("");
    let mut names: Names = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|last| last == "mod" || last == "lib") {
        names.pop();
    }
    names
}

/// The part of the text before the tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Expands `a::{b, c::d}` to `a::b` and `a::c::d`.
fn expand(prefix: &[String], tree: &str, into: &mut Vec<Names>) {
    let (head, branches) = match tree.split_once('{') {
        Some((head, rest)) => (head, Some(rest.trim_end().strip_suffix('}').unwrap_or(rest))),
        None => (tree.split(" as ").next().unwrap_or_default(), None),
    };
    let own = head.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let path: Names = prefix.iter().cloned().chain(own).collect();
    let Some(branches) = branches else { return into.push(path) };
    let (mut depth, mut begin) = (0, 0);
    for (at, letter) in branches.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&path, &branches[begin..at], into);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if !branches[begin..].trim().is_empty() {
        expand(&path, &branches[begin..], into);
    }
}

/// The paths that a file imports.
fn imports(text: &str) -> Vec<Names> {
    let mut all = Vec::new();
    for statement in without_tests(text).split("\nuse ").skip(1).chain(reexports(text)) {
        expand(&[], statement.split(';').next().unwrap_or_default(), &mut all);
    }
    all
}

fn reexports(text: &str) -> impl Iterator<Item = &str> {
    let lines = without_tests(text).match_indices("\npub").map(|(at, _)| &text[at + 1..]);
    lines.filter_map(|rest| {
        let line = &rest[..rest.find(';')?];
        let (before, tree) = line.split_once("use ")?;
        let visibility = before.trim();
        (visibility == "pub" || visibility.starts_with("pub(") && visibility.ends_with(')')).then_some(tree)
    })
}

/// The module that a path leads to from another module, as far as there are modules.
fn resolve(path: &Names, from: &Names, modules: &BTreeMap<Names, PathBuf>) -> Option<Names> {
    let up = path.iter().take_while(|name| *name == "super").count();
    let mut whole = match path.first()?.as_str() {
        "crate" => path[1..].to_vec(),
        "super" => [&from[..from.len().checked_sub(up)?], &path[up..]].concat(),
        "self" => [&from[..], &path[1..]].concat(),
        _ => [&from[..], &path[..]].concat(),
    };
    let relative = !matches!(path[0].as_str(), "crate" | "super" | "self");
    while !modules.contains_key(&whole) {
        whole.pop()?;
    }
    // A path that starts at none of our modules starts at a crate.
    (!relative || whole.len() > from.len()).then_some(whole)
}

/// All modules reachable from a module.
fn reached(from: &Names, edges: &BTreeMap<Names, BTreeSet<Names>>) -> BTreeSet<Names> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(module) = next.pop() {
        for to in edges.get(&module).into_iter().flatten() {
            if seen.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    seen
}

#[test]
fn no_circle_of_imports_is_over_three_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let is_test = |file: &&PathBuf| {
        let path = file.to_string_lossy();
        path.contains("/tests") || path.ends_with("tests.rs") || path.ends_with("vectors.rs")
    };
    let modules: BTreeMap<Names, PathBuf> =
        files.iter().filter(|file| !is_test(file)).map(|file| (module(file, &root), file.clone())).collect();
    let mut edges: BTreeMap<Names, BTreeSet<Names>> = BTreeMap::new();
    for (from, file) in &modules {
        // What `lib.rs` re-exports is the crate's common vocabulary, used everywhere.
        if from.is_empty() {
            continue;
        }
        let text = format!("\n{}", fs::read_to_string(file).expect("readable"));
        for path in imports(&text) {
            if let Some(to) = resolve(&path, from, &modules).filter(|to| to != from && !to.is_empty()) {
                edges.entry(from.clone()).or_default().insert(to);
            }
        }
    }
    assert!(edges.values().map(BTreeSet::len).sum::<usize>() > 500, "imports were found");
    let reach: BTreeMap<&Names, BTreeSet<Names>> =
        modules.keys().map(|module| (module, reached(module, &edges))).collect();
    for (module, there) in &reach {
        let circle: Vec<String> = there
            .iter()
            .filter(|other| reach[other].contains(*module))
            .map(|other| other.join("::"))
            .collect();
        assert!(circle.len() <= MOST, "these import one another: {circle:?}");
    }
}

#[test]
fn an_import_is_taken_apart() {
    let mut all = Vec::new();
    expand(&[], "super::{a::{B, c}, d as e}", &mut all);
    let all: Vec<String> = all.iter().map(|path| path.join("::")).collect();
    assert_eq!(all, ["super::a::B", "super::a::c", "super::d"]);
}
