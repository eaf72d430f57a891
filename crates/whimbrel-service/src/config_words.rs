//! The words for a mistake in a configuration, made of those of the parser, which are for programmers.

/// The most characters of a value that a message shows.
const SHOWN: usize = 40;

/// Says what is wrong and what to write. `value` is the part of the file that is at fault.
pub(crate) fn explain(said: &str, value: &str) -> String {
    let said = said.trim_end().replace('\n', "; ");
    if let Some(name) = unknown(&said) {
        return unknown_setting(name, &said);
    }
    if said.starts_with("unknown variant `") {
        return unknown_word(value, &said);
    }
    if let Some((_, expected)) = said.strip_prefix("invalid ").and_then(|rest| rest.split_once(", expected "))
    {
        if said.starts_with("invalid type: ") || said.starts_with("invalid value: ") {
            return none_fits(value, wanted(expected));
        }
        if said.starts_with("invalid float") || said.starts_with("invalid boolean") {
            return bare_word(value);
        }
    }
    match said.as_str() {
        lacking if lacks_quotes(lacking) => bare_word(value),
        "duplicate key" => format!("`{}` appears twice: leave one out", shown(value)),
        "key with no value, expected `=`" => "write `=` between a setting and its value".to_owned(),
        "invalid key-value pair, expected key" => {
            "write settings as `name = value`, in sections that begin with a line such as [listen]".to_owned()
        }
        "invalid socket address syntax" => format!(
            "`{}` is not an address with a port: write for example \"127.0.0.1:4433\" or \"[::1]:4433\"",
            shown(value)
        ),
        "invalid IP address syntax" => {
            format!(
                "`{}` is not an address of that kind: write for example \"10.0.0.1\", or a network as \"10.0.0.0/8\"",
                shown(value)
            )
        }
        _ => match said.strip_prefix("missing field ") {
            Some(field) => format!("{field} is missing: write it into this section"),
            None => said,
        },
    }
}

/// Returns whether the parser says that a text has no quotation marks.
pub(crate) fn lacks_quotes(said: &str) -> bool {
    let is_part = said.starts_with("invalid float") || said.starts_with("invalid boolean");
    is_part || said.trim_end() == "string values must be quoted, expected literal string"
}

/// Returns the name of a setting of which the parser says that it is unknown.
pub(crate) fn unknown(said: &str) -> Option<&str> {
    said.strip_prefix("unknown field `")?.split('`').next()
}

fn unknown_setting(name: &str, said: &str) -> String {
    // The names stand between backticks.
    let known: Vec<&str> = said.split('`').skip(3).step_by(2).collect();
    let nearest = known.iter().min_by_key(|other| differences(name, other));
    match nearest.filter(|other| differences(name, other) <= name.len() / 3) {
        Some(nearest) => format!("unknown setting `{name}`: write `{nearest}`, if you mean that"),
        None if known.is_empty() => {
            format!("unknown setting `{name}`: no settings are allowed here, so leave it out")
        }
        None => format!("unknown setting `{name}`: the settings here are {}", list(&known)),
    }
}

/// The words for a value that is none of the words that may stand there.
fn unknown_word(value: &str, said: &str) -> String {
    // The words stand between backticks.
    let known: Vec<String> = said.split('`').skip(3).step_by(2).map(|word| format!("\"{word}\"")).collect();
    let known = match known.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => known.concat(),
    };
    format!("`{}` is not one of the words allowed here: write {known}", shown(value))
}

/// The words for a value of the wrong kind.
pub(crate) fn none_fits(value: &str, wanted: &str) -> String {
    format!("`{}` is not allowed here: write {wanted}", shown(value))
}

pub(crate) fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The words for a value that has no quotation marks and should.
fn bare_word(value: &str) -> String {
    match value.trim().to_ascii_lowercase().as_str() {
        "" => "a value is missing after `=`: write one, or leave the setting out".to_owned(),
        "yes" | "no" | "on" | "off" | "true" | "false" => "write true or false".to_owned(),
        _ => format!("text, durations and sizes need quotation marks: write \"{}\"", shown(value)),
    }
}

/// Returns the words for what the parser expects.
fn wanted(expected: &str) -> &str {
    match expected {
        "a boolean" => "true or false",
        "a string" => "text in quotation marks",
        "path string" => "a path in quotation marks",
        "socket address" => "an address with a port, such as \"127.0.0.1:4433\" or \"[::1]:4433\"",
        "IP address" => "an address in quotation marks, such as \"10.0.0.1\"",
        "a sequence" => "a list, for example [\"one\", \"two\"]",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        other if other.starts_with("struct ") => "a section with settings of its own",
        other => other,
    }
}

/// Returns a value as far as a message shows it: its first line, if that is short.
pub(crate) fn shown(value: &str) -> String {
    let line = value.lines().next().unwrap_or_default().trim();
    if line.len() == value.trim().len() && line.chars().count() <= SHOWN {
        return line.to_owned();
    }
    format!("{}...", line.chars().take(SHOWN).collect::<String>())
}

/// Returns the number of characters to change, add or remove to make one name of the other. A `-` counts as a `_`.
fn differences(one: &str, other: &str) -> usize {
    let letter = |c: char| if c == '-' { '_' } else { c.to_ascii_lowercase() };
    // The costs for the beginnings of `other`, for a longer and longer beginning of `one`.
    let mut costs: Vec<usize> = (0..=other.chars().count()).collect();
    for (row, first) in one.chars().map(letter).enumerate() {
        let mut diagonal = std::mem::replace(&mut costs[0], row + 1);
        for (column, second) in other.chars().map(letter).enumerate() {
            let changed = diagonal + usize::from(first != second);
            diagonal = costs[column + 1];
            costs[column + 1] = changed.min(diagonal + 1).min(costs[column] + 1);
        }
    }
    costs.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_their_letters() {
        for (one, other, wanted) in [
            ("", "", 0),
            ("idle-timeout", "idle_timeout", 0),
            ("Idle_Timeout", "idle_timeout", 0),
            ("idle_timout", "idle_timeout", 1),
            ("adress", "address", 1),
            ("", "key", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(differences(one, other), wanted, "{one} {other}");
            assert_eq!(differences(other, one), wanted, "{other} {one}");
        }
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(shown("'short'"), "'short'");
        assert_eq!(shown("[\n1\n]"), "[...");
        assert_eq!(shown(&"x".repeat(50)), format!("{}...", "x".repeat(40)));
    }
}
