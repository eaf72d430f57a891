//! The settings of the commands that listen: those of the configuration file, and what the command line says instead.

mod check;
#[cfg(test)]
mod example_tests;
mod file;
pub(crate) mod reload;
mod sources;

pub use check::CheckCommand;
pub(crate) use reload::Reload;
pub(crate) use sources::Sources;
