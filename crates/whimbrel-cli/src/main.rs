//! whimbrel-cli
fn main() {}
