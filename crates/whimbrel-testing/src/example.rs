//! Annotated examples of configuration files, as the tests compare them with settings.

/// Returns an example with the settings that are behind a `#`, unlike prose, which has a space after it.
pub fn with_optional(example: &str) -> String {
    let shown = |line: &str| match line.strip_prefix('#') {
        Some(setting) if setting.starts_with(|first: char| first.is_ascii_lowercase() || first == '[') => {
            setting.to_owned()
        }
        _ => line.to_owned(),
    };
    example.lines().map(shown).collect::<Vec<_>>().join("\n")
}

/// Returns whether a line of an example sets this field, or begins the section of this name, behind a `#` or not.
pub fn names(example: &str, field: &str) -> bool {
    example.lines().any(|line| {
        let line = line.trim_start_matches('#');
        line.split(" = ").next() == Some(field) || line.ends_with(&format!(".{field}]"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_behind_a_mark_are_told_from_prose() {
        let example = "# The port.\n#port = 7\n#[in.other]\nname = 'a'\n#  = is no setting";
        assert_eq!(
            with_optional(example),
            "# The port.\nport = 7\n[in.other]\nname = 'a'\n#  = is no setting"
        );
        assert!(["port", "other", "name"].into_iter().all(|field| names(example, field)));
        assert!(!["The", "in", "a"].into_iter().any(|field| names(example, field)));
    }
}
