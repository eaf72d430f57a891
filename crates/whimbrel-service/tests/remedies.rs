//! Error messages say what to do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};

/// Words that tell a person what to do.
const REMEDIES: [&str; 27] = [
    "await",
    "bind",
    "check",
    "choose",
    "connect",
    "correct",
    "delete",
    "describe",
    "free some",
    "give",
    "leave",
    "lists",
    "make",
    "name",
    "open",
    "pass ",
    "raise",
    "read them",
    "remove",
    "reuse",
    "run",
    "set `",
    "split",
    "start",
    "try again",
    "use ",
    "write",
];

/// The messages about what nobody can correct.
const NO_REMEDY: [&str; 11] = [
    "{0}",
    "the mocket is closed: {0}",
    "there are no more events: the session has ended",
    "the stream has ended: the peer sends no more on it",
    "the peer reset the stream with code {0}: what it wrote may not be whole",
    "the peer stopped the stream with code {0}: it reads no more",
    "no message stream has this number: it was not opened for messages, or the mocket is closed",
    "cannot receive signals from the system: {0}",
    "interrupted",
    "{address}: not an address of this host now ({error})",
    "{0}. The peer must listen with --show-key",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Returns the messages in a source file, with the expressions that they are formatted with.
fn messages(source: &str) -> Vec<(&str, &str)> {
    let attributes = source.split("#[error(").skip(1);
    attributes
        .filter_map(|rest| {
            let attribute = rest.split(")]\n").next()?;
            let text = attribute.trim_start().strip_prefix('"')?;
            Some((text.split("\"").next()?, attribute))
        })
        .collect()
}

#[test]
fn every_error_says_what_to_do() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut seen = 0;
    for file in
        ["whimbrel", "whimbrel-service"].iter().flat_map(|name| sources(&crates.join(name).join("src")))
    {
        let source = fs::read_to_string(&file).unwrap();
        for (message, attribute) in messages(&source) {
            seen += 1;
            // "cannot open" is no advice to open something.
            let advice: String = attribute
                .split("cannot ")
                .map(|part| part.split_once(' ').map_or("", |(_, rest)| rest))
                .collect();
            let helps = REMEDIES.iter().any(|word| advice.contains(word));
            assert!(
                helps || NO_REMEDY.contains(&message),
                "{}: what can one do about {message:?}?",
                file.display()
            );
        }
    }
    assert!(seen > 50, "{seen} messages were found");
}
