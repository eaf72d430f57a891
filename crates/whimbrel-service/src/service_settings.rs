//! The section of a configuration file about a service's interfaces.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::activity::ActivityOptions;
use crate::dashboard::DashboardOptions;
use crate::service_options::ServiceOptions;
use crate::with_port;

/// The interfaces of a service, as a configuration file names them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ServiceSettings {
    /// See [`ServiceOptions::control`](field@ServiceOptions::control).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<PathBuf>,
    /// See [`ServiceOptions::metrics`](field@ServiceOptions::metrics).
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "with_port::optional")]
    pub metrics: Option<SocketAddr>,
    /// See [`ServiceOptions::dashboard`](field@ServiceOptions::dashboard). In a file, an address alone is short for a section with that
    /// `address`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard: Option<DashboardOptions>,
    /// See [`ServiceOptions::activity`](field@ServiceOptions::activity). In a file, a path alone is short for a section
    /// with that `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityOptions>,
    /// Whether the configuration is read again when its file was saved. Default false. The file is named by
    /// [`ServiceOptions::watch`](field@ServiceOptions::watch).
    pub watch: bool,
}

impl ServiceSettings {
    /// Returns the options of a service with this name.
    pub fn options(self, name: impl Into<String>) -> ServiceOptions {
        // Only the program knows which file it is.
        let Self { control, metrics, dashboard, activity, watch: _ } = self;
        let mut options = ServiceOptions::new(name);
        (options.control, options.metrics, options.activity) = (control, metrics, activity);
        options.dashboard = dashboard;
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_config;

    fn says(text: &str) -> String {
        parse_config::<ServiceSettings>("x.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn the_activity_log_may_be_a_path_alone() {
        let short: ServiceSettings = parse_config("x.toml", "activity = '/var/log/x'").unwrap();
        let long: ServiceSettings = parse_config("x.toml", "[activity]\npath = '/var/log/x'").unwrap();
        assert_eq!(toml::to_string(&short).unwrap(), toml::to_string(&long).unwrap());
        assert_eq!(short.activity.unwrap().path, PathBuf::from("/var/log/x"));
        assert!(says("activity = 5").contains("a path in quotation marks, or a section with a `path`"));
        assert!(says("[activity]\nkeep = 3").contains("`path` is missing"));
        let wrong = says("[activity]\npath = 'x'\nkeep = 'all'");
        assert!(
            wrong.starts_with("x.toml:3:8: `'all'` is not allowed here: write a whole number"),
            "{wrong}"
        );
    }

    #[test]
    fn an_address_for_metrics_needs_a_port() {
        let good: ServiceSettings = parse_config("x.toml", "metrics = '127.0.0.1:9100'").unwrap();
        assert_eq!(good.metrics, Some("127.0.0.1:9100".parse().unwrap()));
        for wrong in ["9100", "':9100'", "'127.0.0.1'"] {
            let said = says(&format!("metrics = {wrong}"));
            assert!(
                said.contains("is not an address with a port: write for example 192.0.2.7:4433"),
                "{said}"
            );
        }
    }
}
