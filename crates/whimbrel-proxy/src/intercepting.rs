//! A proxy that begins to intercept by a TUN interface, or goes on with one of another process.

use crate::intercept::tun::{TunError, TunInterception, TunSettings};
use crate::news::News;
use crate::proxy::{Proxy, StartError};
use crate::settings::Settings;

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

impl Settings {
    /// Checks that this process may intercept, if it is to. Call it before anything is made: a mark needs the same right.
    ///
    /// # Errors
    /// It needs root.
    pub fn check_rights(&self) -> Result<(), StartError> {
        let intercepts = self.ways_in.tproxy.is_some() || self.ways_in.tun.is_some();
        #[cfg(target_os = "linux")]
        if intercepts {
            crate::intercept::check_rights().map_err(crate::intercept::tproxy::TproxyError::from)?;
        }
        #[cfg(not(target_os = "linux"))]
        if intercepts {
            return Err(crate::intercept::tproxy::TproxyError::NotLinux.into());
        }
        Ok(())
    }
}

/// Returns those of these interfaces that are not there. They may come.
pub(crate) fn missing(names: &[String]) -> impl Iterator<Item = &String> {
    let is_there = |name: &str| {
        cfg!(not(target_os = "linux")) || std::path::Path::new("/sys/class/net").join(name).exists()
    };
    names.iter().filter(move |name| !is_there(name))
}

/// Does what runs other programs.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_missed() {
        let names = ["lo", "whimbrel-none"].map(str::to_owned);
        assert_eq!(missing(&names).collect::<Vec<_>>(), ["whimbrel-none"]);
        let told = News::NoInterface("lan7".to_owned()).to_string();
        assert!(told.starts_with("there is no interface `lan7` yet"), "{told}");
    }
}
