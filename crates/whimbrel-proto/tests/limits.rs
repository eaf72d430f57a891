//! Compares docs/limits.md with the code: each row names a constant or setting, its value, and the file that has
//! both.

use std::fs;
use std::path::{Path, PathBuf};

/// The least number of rows on the page: a page that cannot be parsed must not pass.
const FEWEST: usize = 200;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The name, value and file of a row; `None` if the line is no row of a limit.
fn row(line: &str) -> Option<(String, String, String)> {
    if !line.starts_with("| `") {
        return None;
    }
    let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").collect();
    let plain = |at: usize| cells.get(at).map(|cell| cell.trim().trim_matches('`').to_owned());
    Some((plain(0)?, plain(1)?, plain(3)?))
}

/// The source with each value on the line of its name, where a line break followed the `=`.
fn joined(source: &str) -> String {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    lines.join("\n").replace("=\n", "= ")
}

/// Returns whether `rest`, the text after a name, sets `value`: a field's value follows its name, a constant's its
/// type.
fn is_set(rest: &str, value: &str) -> bool {
    let field = rest.strip_prefix(": ").and_then(|rest| rest.strip_prefix(value));
    if field.is_some_and(|end| end.starts_with(',') || end.starts_with(" }")) {
        return true;
    }
    rest.starts_with(':') && rest.contains(&format!("= {value};"))
}

/// Returns whether a line gives `name` this value.
fn holds(source: &str, name: &str, value: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    source.lines().any(|line| {
        line.match_indices(name).any(|(at, _)| {
            !line[..at].chars().next_back().is_some_and(is_part) && is_set(&line[at + name.len()..], value)
        })
    })
}

#[test]
fn each_limit_has_the_value_that_the_page_gives() {
    let page = fs::read_to_string(repository().join("docs/limits.md")).expect("the page is there");
    let rows: Vec<_> = page.lines().filter_map(row).collect();
    assert!(rows.len() >= FEWEST, "only {} rows were found", rows.len());
    let mut wrong = Vec::new();
    for (name, value, file) in &rows {
        match fs::read_to_string(repository().join(file)) {
            Ok(source) if holds(&joined(&source), name, value) => {}
            Ok(_) => wrong.push(format!("{file} does not set {name} to {value}")),
            Err(error) => wrong.push(format!("{file}, of {name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "docs/limits.md is not as the code is:\n{}", wrong.join("\n"));
}

#[test]
fn a_row_is_taken_apart_and_found() {
    let limit = row("| `MOST` | `4` | tries | `src/tries.rs` | It is void. |").expect("a row");
    assert_eq!(limit, ("MOST".to_owned(), "4".to_owned(), "src/tries.rs".to_owned()));
    assert_eq!(row("| name | value | unit | file | when it is reached |"), None);
    assert!(holds("const MOST: u8 = 4;", "MOST", "4"));
    assert!(!holds("const MOST: u8 = 40;", "MOST", "4"));
    assert!(!holds("const FORE_MOST: u8 = 4;", "MOST", "4"));
    assert!(!holds("const MOST_TRIES: u8 = 4;", "MOST", "4"));
    assert!(holds("    max_paths: 8,", "max_paths", "8"));
    assert!(holds("Self { first: 4 << 20, last: true }", "first", "4 << 20"));
    assert!(holds(&joined("const WAITS: [u8; 2] =\n    [1, 3];"), "WAITS", "[1, 3]"));
}
