//! A session's subscriptions as they are kept on disk.

use std::sync::Arc;

use whimbrel_pubsub::topic::Subscribed;

use super::codec::Qos;
use super::options::Options;
use crate::selection::Selection;
use crate::selector::Selector;

/// The version of the form.
const VERSION: u8 = 1;

/// A subscription of a session.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The text with which the client subscribed: a filter, or `$share/GROUP/FILTER`.
    pub(super) text: String,
    /// Its filter and selector.
    pub(super) selection: Selection,
    pub(super) options: Options,
}

/// Writes lines in the order of their texts.
pub(super) fn encode(lines: impl IntoIterator<Item = Line>) -> Vec<u8> {
    let mut out = vec![VERSION];
    for Line { text, selection, options } in lines {
        let Options { qos, no_local, as_published, identifier } = options;
        out.push(qos as u8 | u8::from(no_local) << 2 | u8::from(as_published) << 3);
        out.extend_from_slice(&identifier.unwrap_or(0).to_le_bytes());
        put_text(&mut out, &text);
        put_text(&mut out, &selection.selector().map(ToString::to_string).unwrap_or_default());
    }
    out
}

/// Reads lines; `None` if they are none, or of a newer version.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Line>> {
    let (version, mut rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    let mut lines = Vec::new();
    while let Some((flags, behind)) = rest.split_first() {
        let (identifier, behind) = behind.split_first_chunk()?;
        rest = behind;
        let identifier = Some(u32::from_le_bytes(*identifier)).filter(|identifier| *identifier != 0);
        let (text, selector) = (take_text(&mut rest)?, take_text(&mut rest)?);
        let selector =
            if selector.is_empty() { None } else { Some(Arc::new(Selector::parse(selector).ok()?)) };
        let qos = Qos::of(flags & 3).ok()?;
        let options = Options { qos, no_local: flags & 4 != 0, as_published: flags & 8 != 0, identifier };
        let selection = Selection::new(Subscribed::parse(text).ok()?.filter, selector);
        lines.push(Line { text: text.to_owned(), selection, options });
    }
    Some(lines)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (length, behind) = rest.split_first_chunk()?;
    let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = behind;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(text: &str, selector: Option<&str>, options: Options) -> Line {
        let selector = selector.map(|text| Arc::new(Selector::parse(text).unwrap()));
        let selection = Selection::new(Subscribed::parse(text).unwrap().filter, selector);
        Line { text: text.to_owned(), selection, options }
    }

    #[test]
    fn what_was_written_is_read() {
        let (qos, identifier) = (Qos::AtLeastOnce, Some(300));
        let options = Options { qos, no_local: true, as_published: false, identifier };
        let other = Options { no_local: false, as_published: true, identifier: None, ..options };
        let lines = [line("a/#", Some("x > 3 AND y = 'z'"), options), line("$share/g/b/+", None, other)];
        let read = decode(&encode(lines.clone())).unwrap();
        assert_eq!(format!("{read:?}"), format!("{lines:?}"));
    }

    proptest! {
        #[test]
        fn any_bytes_panic_nowhere(bytes: Vec<u8>) {
            if let Some(lines) = decode(&bytes) {
                decode(&encode(lines)).unwrap();
            }
        }
    }
}
