//! Shared code for the long-running parts of Whimbrel, so that each is run, monitored and stopped in the same way.
//!
//! - [`read_config`] reads a TOML file and shows where a mistake is.
//! - [`Service`] has the interfaces of a running service: a control socket for `status`, `reload` and `stop`, metrics
//!   for Prometheus, an activity log, and readiness and watchdog notifications for systemd. Each exists only if
//!   [`ServiceOptions`] ask for it.
//! - [`ask`] is the client side of the control socket.
//!
//! ```no_run
//! use whimbrel::{Config, Endpoint, new_identity};
//! use whimbrel_service::{Command, Service, ServiceOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::bind(Config::listen_as(new_identity()), "[::]:4433").await?;
//! let options = ServiceOptions::new("example").control("/run/example.sock").metrics("127.0.0.1:9100".parse()?);
//! let mut service = Service::start(options, &endpoint, || serde_json::json!({ "rules": 3 })).await?;
//! loop {
//!     match service.next().await {
//!         Command::Reload(asked) => asked.done("nothing has changed"),
//!         Command::Stop => break,
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod activity;
mod config_file;
#[cfg(unix)]
mod control;
mod error;
mod metrics;
mod readiness;
mod service;
mod status;

pub use activity::{ActivityLog, ActivityOptions};
pub use config_file::{ConfigError, parse_config, read_config};
#[cfg(unix)]
pub use control::{AskError, Request, ask};
pub use error::ServiceError;
pub use metrics::Metrics;
pub use service::{Asked, Command, Service, ServiceOptions};
pub use status::{PathReport, SessionReport, SessionState, StatusReport};
