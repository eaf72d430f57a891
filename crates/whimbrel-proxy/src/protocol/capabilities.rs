//! The capabilities of an end beyond the first version of the protocol. Each end names them at the beginning of a session.

/// The capabilities of an end. An end of which nothing is known has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Messages that change the cap of a stream.
    pub caps: bool,
    /// Messages with several datagrams.
    pub gathered: bool,
}

const CAPS: u8 = 1;
const GATHERED: u8 = 2;

impl Capabilities {
    /// The capabilities of this version.
    pub const OURS: Self = Self { caps: true, gathered: true };

    /// Returns them as bytes: one for each.
    pub fn to_bytes(self) -> Vec<u8> {
        let all = [(self.caps, CAPS), (self.gathered, GATHERED)];
        all.into_iter().filter(|(has, _)| *has).map(|(_, code)| code).collect()
    }

    /// Reads them. What a later version understands is passed over.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self { caps: bytes.contains(&CAPS), gathered: bytes.contains(&GATHERED) }
    }
}
