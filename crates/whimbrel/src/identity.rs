//! Key pairs and other randomness from the operating system.

use rand::TryRng;
use whimbrel_proto::crypto::Identity;
use zeroize::Zeroizing;

/// Makes a new key pair from the system's random number generator.
///
/// ```
/// use whimbrel::{Identity, new_identity};
///
/// let identity = new_identity();
/// let kept: [u8; 32] = *identity.secret();
/// assert_eq!(Identity::from_secret(kept).public(), identity.public());
/// ```
pub fn new_identity() -> Identity {
    Identity::from_secret(*Zeroizing::new(random_bytes()))
}

pub(crate) fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    // Without randomness nothing is secure, so there is no sensible way to go on.
    #[allow(clippy::expect_used, reason = "a system without randomness cannot run this")]
    rand::rngs::SysRng.try_fill_bytes(&mut bytes).expect("the system gives randomness");
    bytes
}
