//! The dialog of the two processes around the parcel.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::parcel::Parcel;
use super::wire::{HandOverError, receive, send};

/// How long one process waits for the other. The old one may wait for peers and for connections that are being opened.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the old process waits for the new one to take its offer.
const AT_ONCE: Duration = Duration::from_secs(5);
/// The longest line.
const LONGEST: u64 = 4_096;

const READY: &str = "whimbrel-proxy hands over";
const GO: &str = "go";
const DONE: &str = "done";
const ENDS: &str = "ends";
const BACK: &str = "goes on itself";

/// The connection between the process that hands over and the one that takes over. All methods block.
#[derive(Debug)]
pub struct Dialog(UnixStream);

impl Dialog {
    /// Creates a dialog over this connection, which a control socket has made.
    ///
    /// # Errors
    /// The system does not let the connection block.
    pub fn new(stream: UnixStream) -> Result<Self, HandOverError> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }

    /// Offers to hand over, and waits until the other process wants that.
    ///
    /// # Errors
    /// It does not.
    pub fn offer(&self) -> Result<(), HandOverError> {
        // Meanwhile the service answers nobody else.
        self.0.set_read_timeout(Some(AT_ONCE))?;
        self.say(READY)?;
        self.hear(GO)?;
        Ok(self.0.set_read_timeout(Some(PATIENCE))?)
    }

    /// Sends the parcel, and waits until the other process goes on with it.
    ///
    /// # Errors
    /// It does not. This process is to go on itself.
    pub fn give(&self, parcel: &Parcel) -> Result<(), HandOverError> {
        send(parcel, &self.0)?;
        self.hear_end()?;
        // What is in the kernel is the other's, and stays there when this process ends.
        parcel.interception.iter().for_each(|interception| interception.own(false));
        parcel.tun.iter().for_each(|tun| tun.own(false));
        Ok(())
    }

    /// Waits until the other process goes on with the parcel, and agrees.
    fn hear_end(&self) -> Result<(), HandOverError> {
        let heard = self.hear(DONE).and_then(|()| self.say(ENDS));
        if heard.is_err() {
            // The other one may be late, and must not go on as well.
            self.say(BACK).ok();
        }
        heard
    }

    /// Waits for an offer, takes it, and receives the parcel.
    ///
    /// # Errors
    /// There was no offer, or the other process is gone.
    pub fn take(&self) -> Result<Parcel, HandOverError> {
        self.hear(READY)?;
        self.say(GO)?;
        receive(&self.0)
    }

    /// Says that this process goes on with what it got, and waits until the other one ends. One that was killed meanwhile
    /// has ended, too: only this process has what it gave.
    ///
    /// # Errors
    /// The other process goes on itself.
    pub fn done(&self) -> Result<(), HandOverError> {
        let said = self.say(DONE);
        match self.hear(ENDS) {
            Err(HandOverError::Gone(error)) if is_end(&error) => Ok(()),
            Err(HandOverError::Version) => Err(HandOverError::TookBack),
            heard => said.and(heard),
        }
    }

    fn say(&self, line: &str) -> Result<(), HandOverError> {
        Ok((&self.0).write_all(format!("{line}\n").as_bytes())?)
    }

    /// Reads a line, byte by byte: what follows may have files.
    fn hear(&self, wanted: &str) -> Result<(), HandOverError> {
        let mut line = String::new();
        BufReader::with_capacity(1, &self.0).take(LONGEST).read_line(&mut line)?;
        match line.trim_end() {
            line if line == wanted => Ok(()),
            "" => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            _ => Err(HandOverError::Version),
        }
    }
}

/// Whether an error means that the other process has closed its end without a word.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An old process that has offered, and a new one that has taken the parcel.
    fn dialog() -> (Dialog, Dialog) {
        let (old, new) = UnixStream::pair().unwrap();
        let (old, new) = (Dialog::new(old).unwrap(), Dialog::new(new).unwrap());
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| new.take().unwrap());
            old.offer().unwrap();
            send(&Parcel::default(), &old.0).unwrap();
            taking.join().unwrap();
        });
        (old, new)
    }

    #[test]
    fn regression_the_new_process_goes_on_if_the_old_one_is_killed_after_the_parcel() {
        let (old, new) = dialog();
        drop(old);
        new.done().unwrap();
    }

    #[test]
    fn regression_only_one_process_goes_on_if_the_new_one_is_late() {
        let (old, new) = dialog();
        old.0.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert!(old.hear_end().is_err(), "it waits no longer");
        drop(old);
        assert!(matches!(new.done(), Err(HandOverError::TookBack)));
        let (old, new) = dialog();
        std::thread::scope(|scope| {
            let done = scope.spawn(|| new.done());
            old.hear_end().unwrap();
            done.join().unwrap().unwrap();
        });
    }
}
