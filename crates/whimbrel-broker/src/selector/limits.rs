//! The bounds of a selector.

/// The longest text of a selector in bytes, and the longest normal form.
pub const MAX_SELECTOR_LEN: usize = 4096;

/// The deepest nesting of parentheses, NOT, BETWEEN and signs.
pub const MAX_DEPTH: usize = 64;

/// The most values that evaluating keeps at a time.
pub const MAX_STACK: usize = 64;

/// The most characters that stand beside a `_` between two `%`, in all patterns of a selector: searching for these takes as many steps
/// for each character of the property.
pub const MAX_GAPPED: usize = 256;

/// The most steps that searches of LIKE may take while one message is judged: for each byte of a property one, and one more for each
/// character that [`MAX_GAPPED`] counts. A search that could take more is not begun, and what it would say is unknown.
pub const MAX_LIKE_STEPS: usize = 1 << 18;
