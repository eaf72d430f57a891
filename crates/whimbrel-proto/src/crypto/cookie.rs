//! Cookies: the state that a server would have to keep between SYN-ACK and PING, held by the client instead (MMSP
//! 3.3.1; docs/protocol.md section 2).
//!
//! A cookie is `key parity (1) · sealed: time (8), client's id (8), prologue (32) · tag (16)`, 65 bytes. The server's
//! id is the nonce: SYN-ACK and PING carry it anyway and it is never issued twice, so it costs no byte. The
//! additional data is the key parity and the client's address and port.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rand::CryptoRng;
use zeroize::Zeroizing;

use super::kdf::Secret;
use crate::debug_only::debug_only;
use crate::time::nanos;
use crate::{ConnectionId, Time};

/// How long a cookie is valid.
pub const COOKIE_LIFE: Duration = Duration::from_secs(10);
const PLAIN_LEN: usize = 8 + 8 + 32;

/// The contents of a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// When it was made.
    pub made: Time,
    /// The id that the SYN gave for the client.
    pub client_id: ConnectionId,
    /// The hash of SYN and SYN-ACK.
    pub prologue: [u8; 32],
}

/// Why a cookie is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CookieError {
    /// The cookie was made elsewhere or for another address or server id, or it is damaged.
    #[error("the cookie is not ours, or not for this address")]
    Invalid,
    /// The cookie is older than [`COOKIE_LIFE`].
    #[error("the cookie is stale")]
    Stale,
}

/// Seals and opens cookies. Its keys change every [`COOKIE_LIFE`]; two are valid at a time.
pub struct CookieJar {
    secret: Secret,
    keys: [Option<(u64, LessSafeKey)>; 2],
}

debug_only!(CookieJar {});

impl CookieJar {
    /// The length of a cookie, in bytes.
    pub const COOKIE_LEN: usize = 1 + PLAIN_LEN + 16;

    /// Creates a jar with fresh keys.
    pub fn new(rng: &mut impl CryptoRng) -> Self {
        Self { secret: Secret::random(rng), keys: [None, None] }
    }

    /// Appends the cookie for the client at `from`. `server_id` is the id given to it, which must never be given
    /// again.
    pub fn seal(&mut self, from: SocketAddr, server_id: ConnectionId, cookie: &Cookie, out: &mut Vec<u8>) {
        let mut plain = [0; PLAIN_LEN];
        plain[..8].copy_from_slice(&cookie.made.as_nanos().to_be_bytes());
        plain[8..16].copy_from_slice(&cookie.client_id.to_bytes());
        plain[16..].copy_from_slice(&cookie.prologue);
        let epoch = epoch(cookie.made);
        let parity = (epoch & 1) as u8;
        let key = self.key(epoch);
        let tag =
            key.seal_in_place_separate_tag(nonce(server_id), Aad::from(additional(parity, from)), &mut plain);
        out.push(parity);
        out.extend_from_slice(&plain);
        out.extend_from_slice(tag.expect("a cookie is short").as_ref());
    }

    /// Opens a cookie and returns what [`CookieJar::seal`] put into it.
    pub fn open(
        &mut self,
        now: Time,
        from: SocketAddr,
        server_id: ConnectionId,
        cookie: &[u8],
    ) -> Result<Cookie, CookieError> {
        let mut cookie: [u8; Self::COOKIE_LEN] = cookie.try_into().map_err(|_| CookieError::Invalid)?;
        let (parity, sealed) = cookie.split_first_mut().ok_or(CookieError::Invalid)?;
        let this = epoch(now);
        let epoch = match *parity {
            0 | 1 if u64::from(*parity) == this & 1 => this,
            0 | 1 => this.checked_sub(1).ok_or(CookieError::Invalid)?,
            _ => return Err(CookieError::Invalid),
        };
        let aad = Aad::from(additional(*parity, from));
        let opened = self.key(epoch).open_in_place(nonce(server_id), aad, sealed);
        let plain: &[u8] = opened.map_err(|_| CookieError::Invalid)?;
        let (made, rest) = plain.split_first_chunk().ok_or(CookieError::Invalid)?;
        let (client_id, rest) = rest.split_first_chunk().ok_or(CookieError::Invalid)?;
        let prologue = *rest.first_chunk().ok_or(CookieError::Invalid)?;
        let made = Time::from_nanos(u64::from_be_bytes(*made));
        if now.since(made) > COOKIE_LIFE {
            return Err(CookieError::Stale);
        }
        Ok(Cookie { made, client_id: ConnectionId::from_bytes(*client_id), prologue })
    }

    fn key(&mut self, epoch: u64) -> &LessSafeKey {
        let slot = &mut self.keys[(epoch & 1) as usize];
        if slot.as_ref().is_none_or(|(of, _)| *of != epoch) {
            *slot = None;
        }
        &slot.get_or_insert_with(|| (epoch, epoch_key(&self.secret, epoch))).1
    }
}

fn epoch_key(secret: &Secret, epoch: u64) -> LessSafeKey {
    let mut key = Zeroizing::new([0; 16]);
    secret.expand("cookie", &epoch.to_be_bytes(), key.as_mut_slice());
    LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.as_slice()).expect("the key has the cipher's length"))
}

fn epoch(time: Time) -> u64 {
    time.as_nanos() / nanos(COOKIE_LIFE)
}

pub(super) fn nonce(id: ConnectionId) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&id.to_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// The additional data: key parity, address and port. An IPv4 address counts the same whether or not it is
/// IPv6-mapped.
fn additional(parity: u8, from: SocketAddr) -> [u8; 19] {
    let ip = match from.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 19];
    bytes[0] = parity;
    bytes[1..17].copy_from_slice(&ip.octets());
    bytes[17..].copy_from_slice(&from.port().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;

    use super::*;

    const ID: ConnectionId = ConnectionId(77);

    fn jar() -> CookieJar {
        CookieJar::new(&mut rand_chacha::ChaCha20Rng::seed_from_u64(5))
    }

    fn cookie(made: Time) -> Cookie {
        Cookie { made, client_id: ConnectionId(4), prologue: [8; 32] }
    }

    fn from() -> SocketAddr {
        "192.0.2.1:4000".parse().unwrap()
    }

    proptest! {
        #[test]
        fn a_cookie_lives_ten_seconds_whenever_it_was_made(made in 0u64..1 << 60, age in 0u64..30_000_000_000) {
            let (mut jar, mut sealed) = (jar(), Vec::new());
            let made = Time::from_nanos(made);
            jar.seal(from(), ID, &cookie(made), &mut sealed);
            prop_assert_eq!(sealed.len(), CookieJar::COOKIE_LEN);
            let opened = jar.open(made + Duration::from_nanos(age), from(), ID, &sealed);
            if age <= nanos(COOKIE_LIFE) {
                prop_assert_eq!(opened, Ok(cookie(made)));
            } else {
                prop_assert!(opened.is_err());
            }
        }

        #[test]
        fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(jar().open(Time::ZERO, from(), ID, &bytes), Err(CookieError::Invalid));
        }
    }

    #[test]
    fn address_id_and_every_byte_are_authenticated() {
        let (mut jar, mut sealed) = (jar(), Vec::new());
        let now = Time::ZERO + Duration::from_secs(25);
        jar.seal(from(), ID, &cookie(now), &mut sealed);
        for other in ["192.0.2.1:4001", "192.0.2.2:4000", "[2001:db8::1]:4000"] {
            assert_eq!(jar.open(now, other.parse().unwrap(), ID, &sealed), Err(CookieError::Invalid));
        }
        assert_eq!(jar.open(now, from(), ConnectionId(78), &sealed), Err(CookieError::Invalid));
        for at in 0..sealed.len() {
            let mut copy = sealed.clone();
            copy[at] ^= 1;
            assert_eq!(jar.open(now, from(), ID, &copy), Err(CookieError::Invalid));
        }
        assert_eq!(jar.open(now, "[::ffff:192.0.2.1]:4000".parse().unwrap(), ID, &sealed), Ok(cookie(now)));
    }
}
