//! A proxy that begins to intercept.

use crate::intercept::Ingress;
use crate::intercept::tun::{TunInterception, TunSettings};
use crate::news::News;
use crate::proxy::{Proxy, StartError};

impl Proxy {
    /// Intercepts by a TUN interface.
    pub(crate) async fn intercept_by_tun(
        &mut self,
        settings: &TunSettings,
        ingress: Ingress,
        tell: impl Fn(News) + Send + 'static,
    ) -> Result<(), StartError> {
        let settings = settings.clone();
        let mut tun = blocking(move || TunInterception::start(&settings, ingress)).await?;
        tell(News::Interception("traffic is intercepted"));
        let serving = tun.serve(move |what| tell(News::Interception(what)));
        self.tun = Some(tun);
        self.run(serving);
        Ok(())
    }
}

/// Does what runs other programs.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
