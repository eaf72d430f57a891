//! The names of segment files.

use std::path::Path;

/// The name of a segment file.
pub(super) fn file_name(first: u64) -> String {
    format!("{first:020}.seg")
}

/// The position in the name of a segment file.
pub(super) fn position_in(path: &Path) -> Option<u64> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".seg")?;
    if stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit()) { stem.parse().ok() } else { None }
}
