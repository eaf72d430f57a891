//! Finds the kind of value that belongs in place of a wrong one, by parsing again with other values there.

use std::ops::Range;

use serde::de::DeserializeOwned;

use crate::config_words::{explain, list, none_fits, shown};

/// The parser's words where it wants one of several words.
const WANTED_WORD: &str = "wanted string or table";
/// The most settings of a section that are named.
const MOST_NAMED: usize = 6;

/// Says what to write in place of what stands at `span`, of which the parser `said` that it is of the wrong kind. `None`: the parser's own
/// words have to do.
pub(crate) fn instead<T: DeserializeOwned>(text: &str, span: &Range<usize>, said: &str) -> Option<String> {
    let value = text.get(span.clone())?;
    if let Some(header) = header(text, span.start) {
        return of_header(header, said);
    }
    let ask = |other: &str| asked::<T>(text, span, other);
    if said == WANTED_WORD {
        return Some(match ask(&quoted(value)) {
            Some(said) if said.starts_with("unknown variant ") => explain(&said, value),
            _ => format!("`{value}` needs quotation marks here: write \"{value}\"", value = shown(value)),
        });
    }
    let (_, expected) = said.strip_prefix("invalid type: ")?.split_once(", expected ")?;
    let name = name_of(text, span.start);
    if expected == "a sequence" {
        // Sections have no text in their place.
        let is_text = ask("[{}]").is_some_and(|said| said.starts_with("invalid type: map"));
        return (!is_text).then(|| none_fits(value, &format!("sections that begin with [[{name}]]")));
    }
    if expected.starts_with("struct ") || expected.starts_with("a section") {
        let said = ask("{ \"?\" = 0 }")?;
        let known = said.strip_prefix("unknown field `?`")?.split('`').skip(1).step_by(2);
        let known = list(&known.take(MOST_NAMED).collect::<Vec<_>>());
        let what = format!("a section with settings of its own, [{name}] or {{ … }}, such as {known}");
        return Some(none_fits(value, &what));
    }
    None
}

/// Returns what the parser says of another value in this place. `None`: it takes that, or stops elsewhere.
fn asked<T: DeserializeOwned>(text: &str, span: &Range<usize>, other: &str) -> Option<String> {
    let whole = [&text[..span.start], other, text.get(span.end..)?].concat();
    let error = toml::from_str::<T>(&whole).err()?;
    let place = span.start..span.start + other.len();
    place.contains(&error.span()?.start).then(|| error.message().to_owned())
}

/// Returns a value as text. Lists and tables become a word that nothing knows.
fn quoted(value: &str) -> String {
    let is_plain = !value.contains(['"', '\'', '\\', '[', '{', '\n']);
    format!("\"{}\"", if is_plain { value } else { "?" })
}

/// Returns the line `[name]` or `[[name]]` that begins a section, if this place is the line's, or the first name in it.
fn header(text: &str, at: usize) -> Option<&str> {
    let before = text[..at].rsplit('\n').next().unwrap_or_default();
    let is_first = before.trim_start().chars().all(|letter| letter == '[');
    let begin = at - before.trim_start().len();
    let line = text[begin..].lines().next().filter(|_| is_first)?;
    let end = if line.starts_with("[[") { line.find("]]")? + 2 } else { line.find(']')? + 1 };
    line.starts_with('[').then(|| &line[..end])
}

/// Says what to write in place of a line that begins a section.
fn of_header(header: &str, said: &str) -> Option<String> {
    let name = header.trim_matches(['[', ']', ' ']);
    let is_list = header.starts_with("[[");
    let wants_list = said.ends_with(", expected a sequence");
    match (is_list, wants_list) {
        (false, true) => {
            Some(format!("`{header}` is one section, and there may be several of them: write [[{name}]]"))
        }
        (true, true) => {
            let (above, _) = name.rsplit_once('.')?;
            Some(format!("`{header}` has no [[{above}]] above it: write one"))
        }
        (true, false)
            if said.starts_with("invalid type: map") || said.starts_with("invalid type: sequence") =>
        {
            Some(format!("`{header}` is one of several sections, and there is only one: write [{name}]"))
        }
        _ => None,
    }
}

/// Returns the name of the setting whose value is at this place, with its sections.
fn name_of(text: &str, at: usize) -> String {
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    let name = line.trim().trim_end_matches('=').trim_end();
    let mut above = text[..at].lines().rev().filter_map(|line| header(line, 0));
    match above.next() {
        Some(section) => format!("{}.{name}", section.trim_matches(['[', ']', ' '])),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_config;

    #[derive(serde::Deserialize, Default, Debug)]
    #[serde(deny_unknown_fields, default)]
    #[allow(dead_code, reason = "only read by serde")]
    struct Whole {
        one: Section,
        #[serde(rename = "several")]
        list: Vec<Section>,
    }

    #[derive(serde::Deserialize, Default, Debug)]
    #[serde(deny_unknown_fields, default)]
    #[allow(dead_code, reason = "only read by serde")]
    struct Section {
        name: String,
        word: Word,
        names: Vec<String>,
        #[serde(rename = "part")]
        parts: Vec<Self>,
    }

    #[derive(serde::Deserialize, Default, Debug)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        #[default]
        Red,
        Green,
        #[serde(rename = "5")]
        Five,
    }

    #[test]
    fn regression_what_is_of_the_wrong_kind_is_told_with_what_fits() {
        for (text, wanted) in [
            (
                "[several]\n",
                "1:1: `[several]` is one section, and there may be several of them: write [[several]]",
            ),
            ("[several]\nname = 'a'\n", "1:1: `[several]` is one section"),
            (
                "[[one]]\nname = 'a'\n",
                "1:1: `[[one]]` is one of several sections, and there is only one: write [one]",
            ),
            ("[[several.part]]\n", "1:3: `[[several.part]]` has no [[several]] above it: write one"),
            ("[[several]]\n[several.part]\n", "2:1: `[several.part]` is one section"),
            (
                "several = 'a'\n",
                "1:11: `'a'` is not allowed here: write sections that begin with [[several]]",
            ),
            (
                "[one]\npart = 5\n",
                "2:8: `5` is not allowed here: write sections that begin with [[one.part]]",
            ),
            ("[one]\nnames = 5\n", "2:9: `5` is not allowed here: write a list, for example"),
            (
                "one = 5\n",
                "1:7: `5` is not allowed here: write a section with settings of its own, [one] or { … }, such as `name`",
            ),
            ("[one]\nword = 5\n", "2:8: `5` needs quotation marks here: write \"5\""),
            (
                "[one]\nword = 7\n",
                "2:8: `7` is not one of the words allowed here: write \"red\", \"green\" or \"5\"",
            ),
            ("[one]\nword = ['red']\n", "2:8: `['red']` is not one of the words"),
            (
                "[one]\nword = 'rad'\n",
                "2:8: `'rad'` is not one of the words allowed here: write \"red\", \"green\" or \"5\"",
            ),
        ] {
            let said = parse_config::<Whole>("x.toml", text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("x.toml:{wanted}")), "{text}: {said}");
        }
    }
}
