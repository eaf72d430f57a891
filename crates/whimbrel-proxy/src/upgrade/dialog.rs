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

/// The connection between the process that hands over and the one that takes over. All methods block.
#[derive(Debug)]
pub struct Dialog(UnixStream);

impl Dialog {
    /// A dialog over this connection, which a control socket has made.
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
        self.hear(DONE)?;
        // What is in the kernel is the other's, and stays there when this process ends.
        parcel.interception.iter().for_each(|interception| interception.own(false));
        Ok(())
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

    /// Says that this process goes on with what it got. The other one ends.
    ///
    /// # Errors
    /// The other process is gone.
    pub fn done(&self) -> Result<(), HandOverError> {
        self.say(DONE)
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
