//! What the `whimbrel` program is made of, for those who want it in their own process: the tests and the demo.

#[cfg(unix)]
pub mod link;
