//! Shared code for the long-running parts of Whimbrel, so that each is run, monitored and stopped in the same way.
//!
//! - [`read_config`] reads a TOML file and shows where a mistake is. [`ListenSettings`] and [`ServiceSettings`] are
//!   sections of such files, beside those of the library's settings.
//! - [`ListenOptions`] and [`DialOptions`] open an endpoint with a key file, a pre-shared key and known peers, the same
//!   for every part. [`key`] has these files, and [`local_paths`] the addresses to use. What people should know besides
//!   errors is a [`Notice`].
//! - [`Service`] has the interfaces of a running service: signals, a control socket for `status`, `reload` and `stop`,
//!   metrics for Prometheus, and a dashboard in the browser. It also keeps an activity log and notifies systemd. Sockets and files exist only if
//!   [`ServiceOptions`] ask for them. [`Service::finish`] ends the service politely.
//! - [`ask`] is the client side of the control socket.
//! - [`private_file`] reads and writes files with secrets.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use whimbrel::Config;
//! use whimbrel_service::{Command, ListenOptions, Listening, Service, ServiceOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let listen = ListenOptions::new(Config::default()).key("/etc/example/key");
//! let Listening { endpoint, url } = listen.listen(|notice| eprintln!("{notice}")).await?;
//! eprintln!("listening {url}");
//! let options = ServiceOptions::new("example")
//!     .version(env!("CARGO_PKG_VERSION"))
//!     .control("/run/example.sock")
//!     .metrics("127.0.0.1:9100".parse()?);
//! let mut service = Service::start(options, &endpoint, || serde_json::json!({ "rules": 3 })).await?;
//! loop {
//!     match service.next().await {
//!         Command::Reload(asked) => asked.done("nothing has changed"),
//!         Command::Stop(_) => break,
//!         _ => {}
//!     }
//! }
//! service.finish(0, "the service was stopped", Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```

#![warn(missing_debug_implementations)]

mod activity;
mod bind;
mod command;
mod config_file;
mod config_probe;
mod config_words;
#[cfg(unix)]
mod control;
mod dashboard;
mod dial;
mod error;
mod health;
pub mod key;
mod listen;
mod listen_settings;
mod metrics;
mod notice;
mod paths;
pub mod private_file;
mod readiness;
mod service;
mod service_options;
mod service_settings;
mod signals;
mod status;
mod subject;
mod watch;
mod with_port;

/// The crate whose metrics [`Metrics`] takes, in the version that fits.
pub use prometheus_client;

pub use activity::{ActivityLog, ActivityOptions};
pub use bind::{BindFailed, bind, bind_advice, bind_both_families};
pub use command::{Asked, Command, StoppedBy};
pub use config_file::{ConfigError, Mistake, parse_config, read_config, refuse_setting};
#[cfg(unix)]
pub use control::{AskError, Request, ask, take_over};
pub use dashboard::DashboardOptions;
pub use dial::{Dial, DialError, DialOptions, NoAnswer};
pub use error::ServiceError;
pub use listen::{ListenError, ListenOptions, Listening};
pub use listen_settings::ListenSettings;
pub use metrics::Metrics;
pub use notice::Notice;
pub use paths::{AbsentPath, NoPath, local_paths};
pub use service::Service;
pub use service_options::ServiceOptions;
pub use service_settings::ServiceSettings;
pub use signals::{Interrupted, Interrupts, interrupted};
pub use status::{PathReport, SessionReport, SessionState, StatusReport};
