//! Checks the module rule of ARCHITECTURE.md: no more than three files refer to one another in a circle, be it by `use`
//! or by a path in the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The most files that may refer to one another, directly or indirectly.
const MOST: usize = 3;

/// The crates that are checked, each with the least number of names of its root, and of references between its files.
/// They show that the files were read.
const CRATES: [(&str, usize, usize); 11] = [
    ("whimbrel-proto", 50, 500),
    ("whimbrel", 50, 100),
    ("whimbrel-service", 20, 30),
    ("whimbrel-proxy", 10, 500),
    ("whimbrel-pubsub", 0, 80),
    ("whimbrel-broker", 0, 400),
    ("whimbrel-net", 5, 5),
    ("whimbrel-link", 5, 10),
    ("whimbrel-cli", 0, 100),
    ("whimbrel-sim", 0, 80),
    ("demo", 0, 50),
];

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

/// The module path of a file: its path below `src`. The root is `lib.rs`, or `main.rs` of a mere program.
fn module(file: &Path, root: &Path) -> Names {
    let below = file.strip_prefix(root).expect("below the root").with_extension("");
    let mut names: Names = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let is_program = || !root.join("lib.rs").exists();
    if names.last().is_some_and(|last| last == "mod" || last == "lib") || names == ["main"] && is_program() {
        names.pop();
    }
    names
}

/// The code of a file: its text before the tests, without comments and indentation.
fn code(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = before_tests.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.flat_map(|line| ["\n", line.split(" // ").next().unwrap_or_default()]).collect()
}

/// What an import makes known: a path, and the name by which the file knows it.
struct Import {
    path: Names,
    name: String,
}

/// Expands `a::{b, c::d as e}` to `a::b`, known as `b`, and `a::c::d`, known as `e`.
fn expand(prefix: &[String], tree: &str, into: &mut Vec<Import>) {
    let (head, branches) = match tree.split_once('{') {
        Some((head, rest)) => (head, Some(rest.trim_end().strip_suffix('}').unwrap_or(rest))),
        None => (tree.split(" as ").next().unwrap_or_default(), None),
    };
    let own = head.split("::").map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let mut path: Names = prefix.iter().cloned().chain(own).collect();
    let Some(branches) = branches else {
        // `a::{self}` is `a`.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let alias = tree.split_once(" as ").map(|(_, alias)| alias.trim());
        let name = alias.or(path.last().map(String::as_str)).unwrap_or_default().to_owned();
        return into.push(Import { path, name });
    };
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

/// The paths that a file names: in its code, and what it imports and re-exports.
fn paths(code: &str) -> Vec<Names> {
    let (mut imported, mut body, mut from) = (Vec::new(), String::new(), 0);
    for Statement { place, tree, .. } in statements(code) {
        expand(&[], tree, &mut imported);
        body.push_str(&code[from..place.start]);
        from = place.end;
    }
    body.push_str(&code[from..]);
    let known: BTreeMap<&str, &Names> =
        imported.iter().map(|import| (import.name.as_str(), &import.path)).collect();
    // A path that begins with an imported name begins where that name is defined.
    let whole = |path: Names| match known.get(path[0].as_str()) {
        Some(origin) => [origin.as_slice(), &path[1..]].concat(),
        None => path,
    };
    let mut all: Vec<Names> = named(&body).into_iter().map(whole).collect();
    all.extend(imported.into_iter().map(|import| import.path));
    all
}

/// A statement that imports or re-exports, and its place in the code.
struct Statement<'a> {
    place: std::ops::Range<usize>,
    tree: &'a str,
    is_public: bool,
}

fn statements(code: &str) -> impl Iterator<Item = Statement<'_>> {
    code.match_indices('\n').filter_map(|(before, _)| {
        let begin = before + 1;
        let end = begin + code[begin..].find(';')?;
        let (visibility, tree) = match code[begin..end].strip_prefix("use ") {
            Some(tree) => ("", tree),
            None => code[begin..end].split_once(" use ")?,
        };
        let is_public = visibility == "pub" || visibility.starts_with("pub(") && visibility.ends_with(')');
        (is_public || visibility.is_empty()).then_some(Statement { place: begin..end, tree, is_public })
    })
}

/// The paths in the code, whether they begin with `crate`, `super`, `self` or a name. `pub(in crate::…)` refers to no other
/// file.
fn named(code: &str) -> Vec<Names> {
    let part_of_path = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | ':');
    let mut all = Vec::new();
    for (at, _) in code.match_indices("::") {
        let begin = code[..at].rfind(|letter| !part_of_path(letter)).map_or(0, |before| before + 1);
        let end = at + code[at..].find(|letter| !part_of_path(letter)).unwrap_or(code.len() - at);
        // `<T as Trait>::name` and `.collect::<T>` begin at no module.
        let begins_here = !code[begin..end].starts_with(':');
        let path: Names =
            code[begin..end].split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if begins_here && path.len() > 1 && !code[..begin].ends_with("pub(in ") {
            all.push(path);
        }
    }
    all
}

/// Where the names that `lib.rs` re-exports come from.
fn root_names(code: &str) -> BTreeMap<String, Names> {
    let mut all = Vec::new();
    for statement in statements(code).filter(|statement| statement.is_public) {
        expand(&[], statement.tree, &mut all);
    }
    all.into_iter().map(|Import { path, name }| (name, path)).collect()
}

/// Replaces a name of the root by the path that it is re-exported from.
fn through_root(path: Names, root: &BTreeMap<String, Names>) -> Names {
    match path.as_slice() {
        [first, name, rest @ ..] if first == "crate" => match root.get(name) {
            Some(origin) => [&path[..1], origin, rest].concat(),
            None => path,
        },
        _ => path,
    }
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
fn no_circle_is_over_three_files() {
    for (name, names, references) in CRATES {
        check(name, names, references);
    }
}

fn check(name: &str, names: usize, references: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let is_test = |file: &&PathBuf| {
        let path = file.to_string_lossy();
        path.contains("/tests")
            || ["tests.rs", "testing.rs", "vectors.rs"].iter().any(|end| path.ends_with(end))
    };
    let modules: BTreeMap<Names, PathBuf> =
        files.iter().filter(|file| !is_test(file)).map(|file| (module(file, &root), file.clone())).collect();
    let code: BTreeMap<&Names, String> = modules
        .iter()
        .map(|(module, file)| (module, code(&fs::read_to_string(file).expect("readable"))))
        .collect();
    let root_names = root_names(&code[&Names::new()]);
    assert!(root_names.len() >= names, "the root's names of {name} were found: {}", root_names.len());
    let mut edges: BTreeMap<Names, BTreeSet<Names>> = BTreeMap::new();
    for (from, code) in code {
        // The root imports nothing for itself. A name taken from it counts as taken from where it is defined.
        if from.is_empty() {
            continue;
        }
        for path in paths(code.as_str()) {
            let path = through_root(path, &root_names);
            if let Some(to) = resolve(&path, from, &modules).filter(|to| to != from && !to.is_empty()) {
                edges.entry(from.clone()).or_default().insert(to);
            }
        }
    }
    let found = edges.values().map(BTreeSet::len).sum::<usize>();
    assert!(found >= references, "references of {name} were found: {found}");
    let reach: BTreeMap<&Names, BTreeSet<Names>> =
        modules.keys().map(|module| (module, reached(module, &edges))).collect();
    for (module, there) in &reach {
        let circle: Vec<String> = there
            .iter()
            .filter(|other| reach[other].contains(*module))
            .map(|other| other.join("::"))
            .collect();
        assert!(circle.len() <= MOST, "these of {name} refer to one another: {circle:?}");
    }
}

#[test]
fn an_import_is_taken_apart() {
    let mut all = Vec::new();
    expand(&[], "super::{self, a::{B, c}, d as e}", &mut all);
    let all: Vec<_> = all.iter().map(|import| (import.path.join("::"), import.name.as_str())).collect();
    let wanted = [("super", "super"), ("super::a::B", "B"), ("super::a::c", "c"), ("super::d", "e")];
    assert_eq!(all, wanted.map(|(path, name)| (path.to_owned(), name)));
}

#[test]
fn a_path_in_the_code_counts_and_a_visibility_does_not() {
    let text = "pub(in crate::a) fn f() -> crate::b::C {\n    // crate::d::e\n    super::g::h(self::i::J) // crate::k\n}\n\
                fn i() {\n    use crate::l::{M, n::O};\n}\n#[cfg(test)]\nmod tests {\n    use crate::p::Q;\n}\n";
    let mut all: Vec<String> = paths(&code(text)).iter().map(|path| path.join("::")).collect();
    all.dedup();
    assert_eq!(all, ["crate::b::C", "super::g::h", "self::i::J", "crate::l::M", "crate::l::n::O"]);
}

/// Circles were unseen whose paths began with the name of a child, or with an imported name.
#[test]
fn regression_a_path_that_begins_with_a_child_or_an_imported_name_counts() {
    let text = "mod link;\nuse super::{deep as d, other};\npub use link::Link;\nfn f() -> Vec<u8> {\n    link::run(d::e::f(), other::G::h());\n\
                <u8 as T>::link();\n    x.link::<u8>()\n}\n";
    let modules: BTreeMap<Names, PathBuf> =
        [vec![], vec!["a"], vec!["a", "link"], vec!["deep"], vec!["deep", "e"], vec!["other"]]
            .into_iter()
            .map(|names| (names.into_iter().map(str::to_owned).collect(), PathBuf::new()))
            .collect();
    let from = vec!["a".to_owned()];
    let found: BTreeSet<String> = paths(&code(text))
        .iter()
        .filter_map(|path| resolve(path, &from, &modules))
        .map(|to| to.join("::"))
        .collect();
    assert_eq!(found, ["a::link", "deep", "deep::e", "other"].map(str::to_owned).into());
    // Nothing else would lead there.
    let text = text.replace("pub use link::Link;\n", "");
    assert!(paths(&code(&text)).iter().any(|path| path.join("::") == "link::run"));
}

#[test]
fn a_name_of_the_root_leads_to_its_file() {
    let root = root_names("\npub use error::{Cause, PeerMisbehaved};\npub(crate) use time::Time;");
    let through = |path: &str| through_root(path.split("::").map(str::to_owned).collect(), &root).join("::");
    assert_eq!(through("crate::Cause::Peer"), "crate::error::Cause::Peer");
    assert_eq!(through("crate::Time"), "crate::time::Time");
    assert_eq!(through("crate::wire::Reader"), "crate::wire::Reader");
}
