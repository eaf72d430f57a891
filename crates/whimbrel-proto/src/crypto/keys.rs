//! The keys of a connection in both directions, and how they change.

use super::aead::{Aead, Offer};
use super::kdf::Secret;
use super::packet_keys::{HeaderKey, OpenKey, SealKey, key_log_line};
use crate::debug_only::debug_only;
use crate::{ConnectionId, PathId, Side};

/// The keys of both directions, derived from the secrets that the Noise handshake ended with.
pub struct Keys {
    /// Seals outgoing packets.
    pub seal: SealKey,
    /// Masks the headers of outgoing packets.
    pub seal_header: HeaderKey,
    /// Opens incoming packets.
    pub open: OpenKey,
    /// Unmasks the headers of incoming packets.
    pub open_header: HeaderKey,
    aead: Aead,
    generation: u64,
    sealing: Direction,
    opening: Direction,
    /// The next generation, derived ahead of its use so that a packet that rotates keys takes no longer to open (RFC
    /// 9001 section 6.3).
    next: Option<Box<Next>>,
}

debug_only!(Keys { aead, generation });

struct Direction {
    first: Secret,
    /// The current secret after a rotation.
    later: Option<Box<Secret>>,
}

impl Direction {
    fn new(secret: Secret) -> Self {
        Self { first: secret, later: None }
    }

    fn current(&self) -> &Secret {
        self.later.as_deref().unwrap_or(&self.first)
    }
}

struct Next {
    seal: SealKey,
    open: OpenKey,
    seal_secret: Secret,
    open_secret: Secret,
}

impl Keys {
    /// Derives the keys from the raw split of Noise: `client` and `server` are the secrets of what each of them
    /// sends.
    pub(crate) fn new(side: Side, aead: Aead, client: Secret, server: Secret) -> Self {
        let (client, server) = (client.derive("client"), server.derive("server"));
        let (sealing, opening) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        Self {
            seal: SealKey::new(aead, &sealing),
            seal_header: HeaderKey::new(aead, &sealing),
            open: OpenKey::new(aead, &opening),
            open_header: HeaderKey::new(aead, &opening),
            aead,
            generation: 0,
            sealing: Direction::new(sealing),
            opening: Direction::new(opening),
            next: None,
        }
    }

    /// Returns the cipher agreed on.
    pub const fn aead(&self) -> Aead {
        self.aead
    }

    /// Returns the number of calls to [`Keys::rotate`]. Its low bit is the key phase bit of sealed packets.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the key that opens packets of the next generation, to try on a packet whose key phase bit differs. It is
    /// derived at most once a generation, whatever a forger sends.
    pub fn next_open(&mut self) -> &OpenKey {
        &self.next().open
    }

    /// Moves to the next generation in both directions. Returns the key that opens packets still in flight from the
    /// previous one. Header keys stay the same.
    pub fn rotate(&mut self) -> OpenKey {
        self.next();
        let next = self.next.take().expect("derived in the line before");
        let Next { seal, open, seal_secret, open_secret } = *next;
        self.seal = seal;
        self.sealing.later = Some(Box::new(seal_secret));
        self.opening.later = Some(Box::new(open_secret));
        self.generation += 1;
        std::mem::replace(&mut self.open, open)
    }

    /// The input to the session's next secret. It does not help to read the connection.
    pub(crate) fn resumption(&self, side: Side) -> Secret {
        match side {
            Side::Client => self.sealing.first.derive("resume"),
            Side::Server => self.opening.first.derive("resume"),
        }
    }

    /// Keying material for the application, the same at both ends; of no use for reading the connection.
    pub(crate) fn export(&self, side: Side, label: &[u8], context: &[u8], out: &mut [u8]) -> bool {
        let client = match side {
            Side::Client => &self.sealing.first,
            Side::Server => &self.opening.first,
        };
        client.derive("exporter").export(label, context, out)
    }

    /// Returns two key log lines (see [`key_log_line`]): packets we send to `theirs`, packets that come to `ours`.
    pub fn log(&self, path: PathId, ours: ConnectionId, theirs: ConnectionId) -> [String; 2] {
        let line = |id, direction: &Direction| {
            key_log_line(id, path, self.aead, direction.current(), &direction.first)
        };
        [line(theirs, &self.sealing), line(ours, &self.opening)]
    }

    fn next(&mut self) -> &Next {
        self.next.get_or_insert_with(|| {
            let (seal_secret, open_secret) = (self.sealing.current().next(), self.opening.current().next());
            Box::new(Next {
                seal: SealKey::new(self.aead, &seal_secret),
                open: OpenKey::new(self.aead, &open_secret),
                seal_secret,
                open_secret,
            })
        })
    }
}

/// A client's keys for packets between PING and PONG.
pub struct EarlySeal {
    /// Seals the packets.
    pub seal: SealKey,
    /// Masks their headers.
    pub header: HeaderKey,
    secret: Secret,
    aead: Aead,
}

debug_only!(EarlySeal { aead });

impl EarlySeal {
    /// Creates the keys. `early` is the secret that the parameter EARLY_SECRET carries.
    pub(crate) fn new(offer: Offer, early: &Secret) -> Self {
        let (aead, secret) = (offer.first(), early.derive("early"));
        Self { seal: SealKey::new(aead, &secret), header: HeaderKey::new(aead, &secret), secret, aead }
    }

    /// Returns the cipher, which is the first that the client offers.
    pub const fn aead(&self) -> Aead {
        self.aead
    }

    /// Returns a key log line (see [`key_log_line`]) for early packets to the server's id.
    pub fn log(&self, path: PathId, server: ConnectionId) -> String {
        key_log_line(server, path, self.aead, &self.secret, &self.secret)
    }
}

/// A server's keys for packets that the client sends between PING and PONG.
pub struct EarlyOpen {
    /// Opens the packets.
    pub open: OpenKey,
    /// Unmasks their headers.
    pub header: HeaderKey,
    secret: Secret,
    aead: Aead,
}

debug_only!(EarlyOpen { aead });

impl EarlyOpen {
    /// Creates the keys. `early` is the secret that the parameter EARLY_SECRET carried.
    pub(crate) fn new(offer: Offer, early: &Secret) -> Self {
        let (aead, secret) = (offer.first(), early.derive("early"));
        Self { open: OpenKey::new(aead, &secret), header: HeaderKey::new(aead, &secret), secret, aead }
    }

    /// Returns the cipher, which is the first that the client offers.
    pub const fn aead(&self) -> Aead {
        self.aead
    }

    /// Returns a key log line (see [`key_log_line`]) for early packets to the server's id.
    pub fn log(&self, path: PathId, server: ConnectionId) -> String {
        key_log_line(server, path, self.aead, &self.secret, &self.secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(side: Side, aead: Aead) -> Keys {
        Keys::new(side, aead, Secret::new([1; 32]), Secret::new([2; 32]))
    }

    fn passes(seal: &SealKey, open: &OpenKey) -> bool {
        let mut body = b"hello".to_vec();
        let tag = seal.seal(PathId(0), 5, b"head", &mut body);
        body.extend_from_slice(&tag);
        open.open(PathId(0), 5, b"head", &mut body) == Some(5)
    }

    #[test]
    fn both_ends_rotate_alike_and_the_old_key_opens_the_old() {
        let mut client = keys(Side::Client, Aead::Aes128Gcm);
        let mut server = keys(Side::Server, Aead::Aes128Gcm);
        assert!(passes(&client.seal, &server.open) && passes(&server.seal, &client.open));
        assert!(!passes(&client.seal, &client.open), "the directions differ");
        let old = server.rotate();
        assert!(passes(&client.seal, &old) && !passes(&client.seal, &server.open));
        assert!(passes(&server.seal, client.next_open()));
        client.rotate();
        assert!(passes(&client.seal, &server.open) && passes(&server.seal, &client.open));
        assert!(!passes(&client.seal, &old));
        assert_eq!((client.generation(), server.generation()), (1, 1));
        let sample = [3; 16];
        assert_eq!(client.seal_header.mask(&sample), server.open_header.mask(&sample));
    }

    #[test]
    fn a_log_line_has_five_fields_and_the_header_key_of_generation_0() {
        let mut keys = keys(Side::Client, Aead::ChaCha20Poly1305);
        let log = |keys: &Keys| keys.log(PathId(1), ConnectionId(0xa), ConnectionId(0xb));
        let before = log(&keys);
        keys.rotate();
        let after = log(&keys);
        let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (before, after) = (fields(&before[0]), fields(&after[0]));
        assert_eq!(before.len(), 6);
        assert_eq!(before[..3], ["WHIMBREL_TRAFFIC", "000000000000000b", "2"]);
        assert_eq!((before[3].len(), before[4].len(), before[5].len()), (64, 24, 64));
        assert_eq!(before[5], after[5]);
        assert_ne!(before[3], after[3]);
    }
}
