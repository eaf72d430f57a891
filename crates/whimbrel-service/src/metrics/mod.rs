//! Figures for Prometheus.

mod collector;
pub(crate) mod http;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::registry::{Metric, Registry};
use whimbrel::Endpoint;

use collector::EndpointCollector;

/// The figures of a service: those of its endpoint, and what is added to them. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        let mut registry = Registry::with_prefix("whimbrel");
        registry.register_collector(Box::new(EndpointCollector::new(endpoint.clone())));
        Self(Arc::new(Mutex::new(registry)))
    }

    /// Adds a figure of the service's own; its name gets `whimbrel_` before it.
    pub fn register(&self, name: &str, help: &str, metric: impl Metric) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).register(name, help, metric);
    }

    /// All of them in the text format of OpenMetrics.
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
