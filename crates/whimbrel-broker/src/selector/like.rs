/// The pattern of a LIKE: `%` stands for any characters, `_` for any one, and either for itself behind the escape character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    text: Box<str>,
    escape: Option<char>,
    /// The parts before, between and behind the `%`, at least one.
    segments: Box<[Segment]>,
    /// The steps that searching may take for each byte of a text.
    steps: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// Without `_`.
    Plain(Box<str>),
    /// `None` is any character.
    Gapped(Box<[Option<char>]>),
}

/// The escape character stands before one that it cannot escape, or before nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadEscape(pub(super) Option<char>);

impl Pattern {
    pub(super) fn new(text: &str, escape: Option<char>) -> Result<Self, BadEscape> {
        let mut segments = Vec::new();
        let mut segment = Vec::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            if Some(character) == escape {
                match characters.next() {
                    Some(next) if matches!(next, '%' | '_') || Some(next) == escape => {
                        segment.push(Some(next))
                    }
                    next => return Err(BadEscape(next)),
                }
            } else {
                match character {
                    '%' => segments.push(Segment::new(&std::mem::take(&mut segment))),
                    '_' => segment.push(None),
                    _ => segment.push(Some(character)),
                }
            }
        }
        segments.push(Segment::new(&segment));
        let mut pattern = Self { text: text.into(), escape, segments: segments.into(), steps: 0 };
        // Without a part between two `%` nothing is searched for.
        pattern.steps = if pattern.segments.len() > 2 { 1 + pattern.gapped() } else { 0 };
        Ok(pattern)
    }

    /// The pattern as it was written.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn escape(&self) -> Option<char> {
        self.escape
    }

    /// The text that alone matches, if the pattern has no wildcard.
    pub(super) fn literal(&self) -> Option<&str> {
        match &*self.segments {
            [Segment::Plain(text)] => Some(text),
            _ => None,
        }
    }

    /// The bytes that it takes beside itself, about: every character stands alone in a segment with a `_`.
    pub(super) fn held(&self) -> usize {
        self.text.len() * (1 + size_of::<char>()) + self.segments.len() * size_of::<Segment>()
    }

    /// The number of characters that may have to be compared at each place of a text.
    pub(super) fn gapped(&self) -> usize {
        let between = self.segments.iter().skip(1).rev().skip(1);
        between
            .map(|segment| if let Segment::Gapped(characters) = segment { characters.len() } else { 0 })
            .sum()
    }

    /// The steps that searching this text may take.
    pub(super) fn steps(&self, text: &str) -> usize {
        self.steps * text.len()
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let Some((first, others)) = self.segments.split_first() else { return false };
        let Some(rest) = first.strip_from_front(text) else { return false };
        let Some((last, between)) = others.split_last() else { return rest.is_empty() };
        let Some(mut rest) = last.strip_from_back(rest) else { return false };
        // The first place where a segment can be leaves the most for those behind it.
        for segment in between {
            match segment.find(rest) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        true
    }
}

impl Segment {
    fn new(characters: &[Option<char>]) -> Self {
        match characters.iter().copied().collect::<Option<String>>() {
            Some(text) => Self::Plain(text.into()),
            None => Self::Gapped(characters.into()),
        }
    }

    fn strip_from_front<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::Plain(plain) => text.strip_prefix(&**plain),
            Self::Gapped(expected) => {
                let mut characters = text.chars();
                let fits = |expected: &Option<char>| is_like(*expected, characters.next());
                expected.iter().all(fits).then_some(characters.as_str())
            }
        }
    }

    fn strip_from_back<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::Plain(plain) => text.strip_suffix(&**plain),
            Self::Gapped(expected) => {
                let mut characters = text.chars();
                let fits = |expected: &Option<char>| is_like(*expected, characters.next_back());
                expected.iter().rev().all(fits).then_some(characters.as_str())
            }
        }
    }

    /// Returns what stands behind the first place where the text has this segment.
    fn find<'a>(&self, text: &'a str) -> Option<&'a str> {
        match self {
            Self::Plain(plain) => text.find(&**plain).map(|at| &text[at + plain.len()..]),
            Self::Gapped(_) => text.char_indices().find_map(|(at, _)| self.strip_from_front(&text[at..])),
        }
    }
}

fn is_like(expected: Option<char>, found: Option<char>) -> bool {
    found.is_some() && (expected.is_none() || expected == found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn like(text: &str, pattern: &str) -> bool {
        Pattern::new(pattern, Some('!')).expect("a pattern").matches(text)
    }

    #[test]
    fn wildcards_stand_for_characters() {
        assert!(like("abc", "abc") && !like("abc", "ab") && !like("ab", "abc"));
        assert!(like("123", "12%3") && like("12993", "12%3") && !like("1234", "12%3"));
        assert!(like("lose", "l_se") && !like("loose", "l_se"));
        assert!(like("", "%") && like("", "") && !like("", "_"));
        assert!(like("_foo", "!_%") && !like("bar", "!_%"));
        assert!(like("a%b", "a!%b") && !like("axb", "a!%b") && like("a!", "a!!"));
        assert!(like("aab", "%ab") && like("xaaby", "%a_b%") && !like("xaby", "%a_b%"));
        assert!(!like("aba", "ab%ba"));
        assert!(like("größe", "gr_ße") && like("g\u{1F41F}e", "g_e"));
        assert!(like("a\nb", "a%b") && like("a\nb", "a_b"));
    }

    #[test]
    fn an_escape_stands_before_what_it_escapes() {
        assert_eq!(Pattern::new("a!b", Some('!')), Err(BadEscape(Some('b'))));
        assert_eq!(Pattern::new("a!", Some('!')), Err(BadEscape(None)));
        assert!(Pattern::new("a!b", None).is_ok());
    }

    /// The meaning of a pattern without escapes, written as plainly as it can be.
    fn plainly(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', pattern @ ..] => (0..=text.len()).any(|from| plainly(&text[from..], pattern)),
            ['_', pattern @ ..] => !text.is_empty() && plainly(&text[1..], pattern),
            [first, pattern @ ..] => text.first() == Some(first) && plainly(&text[1..], pattern),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn matching_is_as_plainly_written(text in "[abé]{0,8}", pattern in "[abé%_]{0,7}") {
            let expected = plainly(&text.chars().collect::<Vec<_>>(), &pattern.chars().collect::<Vec<_>>());
            prop_assert_eq!(like(&text, &pattern), expected);
        }
    }
}
