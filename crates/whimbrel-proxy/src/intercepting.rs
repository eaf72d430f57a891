//! A proxy that begins to intercept by a TUN interface, or goes on with one of another process.

use crate::intercept::tun::{TunError, TunInterception, TunSettings};
use crate::news::News;
use crate::proxy::{Proxy, StartError};

impl Proxy {
    /// Intercepts by a TUN interface.
    pub(crate) async fn intercept_by_tun(&mut self, settings: &TunSettings) -> Result<(), StartError> {
        let settings = settings.clone();
        let mut tun = blocking(move || TunInterception::start(&settings)).await?;
        (self.tell.0)(News::Interception("traffic is intercepted"));
        self.serve_tun(&mut tun)?;
        self.tun = Some(tun);
        Ok(())
    }

    /// Serves what a TUN interface intercepts.
    pub(crate) fn serve_tun(&mut self, tun: &mut TunInterception) -> Result<(), TunError> {
        let (Some(settings), Some(ingress)) = (&self.settings.ways_in.tun, &self.ingress) else {
            return Ok(());
        };
        let tell = self.tell.clone();
        let tell = move |what| (tell.0)(News::Interception(what));
        let serving = tun.serve(settings, ingress.clone(), tell)?;
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
