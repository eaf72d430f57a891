//! The parts of the `whimbrel` program, for use in another process: the tests and the demo.

pub mod broker;
pub mod cat;
pub mod closed;
mod commands;
mod dial;
pub mod key;
#[cfg(unix)]
pub mod link;
pub mod log;
mod monitor;
pub mod output;
mod path_lines;
mod paths;
#[cfg(unix)]
pub mod perf;
pub mod process;
pub mod proxy;
pub mod pubsub;
pub mod settings;
mod shown;
#[cfg(unix)]
pub mod status;
mod table;
#[cfg(unix)]
pub mod top;
mod units;
