//! The ids of brokers, channels and clusters, which follow from their keys and names.

use whimbrel::PublicKey;
use whimbrel_pubsub::coverage::ClusterId;
use whimbrel_pubsub::message::{BrokerId, ChannelId};

/// Returns the id of the broker with this key.
pub fn broker_id(key: &PublicKey) -> BrokerId {
    let bytes = key.as_bytes();
    BrokerId(u64::from_le_bytes(std::array::from_fn(|at| bytes[at])))
}

/// Channels have the same id at all brokers, since they have the same name.
pub(crate) fn channel_id(name: &str) -> ChannelId {
    let digest: [u8; 4] = digest(b"whimbrel channel", name.as_bytes());
    ChannelId(u32::from_le_bytes(digest))
}

/// The id of the cluster of the broker with this key. A broker without a cluster is one by itself.
pub(crate) fn cluster_id(cluster: Option<&str>, key: &PublicKey) -> ClusterId {
    let digest = match cluster {
        Some(name) => digest(b"whimbrel cluster", name.as_bytes()),
        None => digest(b"whimbrel cluster of", key.as_bytes()),
    };
    ClusterId(u128::from_le_bytes(digest))
}

fn digest<const N: usize>(what: &[u8], of: &[u8]) -> [u8; N] {
    let text = [what, &[0], of].concat();
    let whole = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &text);
    std::array::from_fn(|at| whole.as_ref()[at])
}
