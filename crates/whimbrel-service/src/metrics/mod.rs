//! Metrics for Prometheus.

mod collector;
pub(crate) mod http;
mod scrapes;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::registry::{Metric, Registry};
use whimbrel::Endpoint;

use collector::EndpointCollector;

/// The metrics of a service: those of its endpoint, and any that were registered. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        let mut registry = Registry::with_prefix("whimbrel");
        registry.register_collector(Box::new(EndpointCollector::new(endpoint.clone())));
        Self(Arc::new(Mutex::new(registry)))
    }

    /// Registers a metric of the service's own. `whimbrel_` is prefixed to its name.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).register(name, help, metric);
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
