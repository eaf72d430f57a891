//! The subject of a status report.

use std::time::Instant;

use whimbrel::Endpoint;

use crate::status::StatusReport;

/// The service, as the control socket reports on it.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) began: Instant,
    pub(crate) endpoint: Endpoint,
    pub(crate) more: Box<dyn Fn() -> serde_json::Value + Send + Sync>,
}

impl Subject {
    pub(crate) fn status(&self) -> StatusReport {
        StatusReport::new((&self.name, &self.version), self.began, &self.endpoint, (self.more)())
    }
}
