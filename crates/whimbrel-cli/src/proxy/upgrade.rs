//! `whimbrel proxy run --replace`: one process takes over from another.

use whimbrel_proxy::Settings;
use whimbrel_proxy::upgrade::{Dialog, HandOverError, Parcel};
use whimbrel_service::take_over as ask;

use crate::process::Misused;

/// The parcel that was taken over, and from whom.
pub(super) struct Taken {
    pub(super) parcel: Parcel,
    dialog: Dialog,
}

/// The process that takes over.
pub(super) struct Heir(Dialog);

/// Takes over from the proxy that runs with the control socket of these settings.
pub(super) async fn take_over(settings: &Settings) -> anyhow::Result<Taken> {
    let Some(control) = &settings.service.control else {
        let why = "--replace needs the control socket of the running proxy: give --control PATH, or [service] control in the file";
        return Err(Misused(why.to_owned()).into());
    };
    let stream = ask(control).await?.into_std()?;
    blocking(move || {
        let dialog = Dialog::new(stream)?;
        let parcel = dialog.take()?;
        Ok(Taken { parcel, dialog })
    })
    .await
    .map_err(|error| {
        anyhow::anyhow!("nothing was taken over from the proxy on {}: {error}", control.display())
    })
}

impl Taken {
    /// Says that this process goes on.
    pub(super) async fn done(self) -> Result<(), HandOverError> {
        blocking(move || self.dialog.done()).await
    }
}

impl Heir {
    /// Offers to hand over to the process at the other end of this connection.
    pub(super) async fn offer(stream: tokio::net::UnixStream) -> Result<Self, HandOverError> {
        let stream = stream.into_std()?;
        blocking(move || {
            let dialog = Dialog::new(stream)?;
            dialog.offer()?;
            Ok(Self(dialog))
        })
        .await
    }

    /// Gives everything away. Returns the number of sessions and flows, or gives the parcel back.
    pub(super) async fn give(self, parcel: Parcel) -> Result<(usize, usize), (Parcel, HandOverError)> {
        let given = tokio::task::spawn_blocking(move || (self.0.give(&parcel), parcel)).await;
        match given {
            Ok((Ok(()), parcel)) => Ok(parcel.counts()),
            Ok((Err(why), parcel)) => Err((parcel, why)),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HandOverError> + Send + 'static,
) -> Result<T, HandOverError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
