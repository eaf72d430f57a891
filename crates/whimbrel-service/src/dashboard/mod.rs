//! A page in the browser that shows what a service does, live.
//!
//! The page is part of the program and loads nothing from elsewhere. Its figures come by server-sent events: the status report that the
//! control socket gives, once a second. It only shows; nobody can change anything here.

mod answer;
mod events;
mod guard;
mod options;
mod server;
mod snapshot;

pub use options::DashboardOptions;
pub(crate) use server::DashboardServer;
