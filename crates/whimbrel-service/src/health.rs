//! Whether the service works, as `/healthz` tells.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Check = Box<dyn Fn() -> Result<(), String> + Send>;

/// The health of a service, as it reports it. Clones are handles on the same.
#[derive(Clone)]
pub(crate) struct Health(Arc<Inner>);

struct Inner {
    check: Mutex<Check>,
    stopping: AtomicBool,
}

impl Health {
    /// A healthy service.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { check: Mutex::new(Box::new(|| Ok(()))), stopping: AtomicBool::new(false) }))
    }

    /// Replaces the check.
    pub(crate) fn set(&self, check: impl Fn() -> Result<(), String> + Send + 'static) {
        *self.0.check.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(check);
    }

    /// The service is stopping, so nothing new should be sent to it.
    pub(crate) fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns why the service is not healthy, if it is not.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.0.stopping.load(Ordering::Relaxed) {
            return Err("stopping".to_owned());
        }
        (self.0.check.lock().unwrap_or_else(PoisonError::into_inner))()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_as_healthy_as_its_check_says_until_it_stops() {
        let health = Health::new();
        assert_eq!(health.check(), Ok(()));
        health.set(|| Err("the disk is full".to_owned()));
        assert_eq!(health.check(), Err("the disk is full".to_owned()));
        health.set(|| Ok(()));
        assert_eq!(health.check(), Ok(()));
        health.stop();
        assert_eq!(health.check(), Err("stopping".to_owned()));
    }
}
