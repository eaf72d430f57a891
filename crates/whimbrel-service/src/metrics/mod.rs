//! Metrics for Prometheus.

mod collector;
pub(crate) mod http;
mod scrapes;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};
use whimbrel::Endpoint;

use collector::EndpointCollector;

/// The metrics of a service: those of its endpoint, and any that were registered. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    pub(crate) fn new(endpoint: &Endpoint, name: &str, version: &str) -> Self {
        let mut registry = Registry::default();
        let whimbrel = registry.sub_registry_with_prefix("whimbrel");
        whimbrel.register_collector(Box::new(EndpointCollector::new(endpoint.clone())));
        let labels = [("name", name), ("version", version)].map(|(label, value)| (label, value.to_owned()));
        whimbrel.register("service", "The service and its version", Info::new(labels.to_vec()));
        Self(Arc::new(Mutex::new(registry)))
    }

    /// Registers a metric of the service's own, under this name. Names that begin with `whimbrel_` belong to Whimbrel.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.with_registry(|registry| registry.register(name, help, metric));
    }

    /// Lends the registry, for metrics with units, labels, a prefix or a collector of their own.
    pub fn with_registry<R>(&self, register: impl FnOnce(&mut Registry) -> R) -> R {
        register(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns all metrics in the OpenMetrics text format. This collects them from every session, and takes the time
    /// for that. What is served over HTTP is collected at most ten times a second.
    pub fn text(&self) -> String {
        let registry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        // Writing to a string cannot fail.
        prometheus_client::encoding::text::encode(&mut text, &registry).ok();
        text
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::registry::Unit;
    use whimbrel::Config;

    use super::*;

    #[tokio::test]
    async fn a_services_own_metrics_have_its_own_names() {
        let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await.unwrap();
        let metrics = Metrics::new(&endpoint, "greeter", "2.3.4");
        let (greetings, said) = (Counter::<u64>::default(), Counter::<u64>::default());
        metrics.register("greetings", "Greetings sent", greetings.clone());
        metrics.with_registry(|registry| {
            let own = registry.sub_registry_with_prefix("greeter");
            own.register_with_unit("said", "What was said", Unit::Bytes, said.clone());
        });
        greetings.inc();
        said.inc_by(5);
        let text = metrics.text();
        for line in [
            "greetings_total 1",
            "greeter_said_bytes_total 5",
            "whimbrel_sessions 0",
            "whimbrel_service_info{name=\"greeter\",version=\"2.3.4\"} 1",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
    }
}
