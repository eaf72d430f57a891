//! The header in front of each packet of the TUN (`struct virtio_net_hdr`): what the kernel has left undone.

/// Its length.
pub(super) const LENGTH: usize = 10;
/// The header of a packet at which nothing is to be done.
pub(super) const NOTHING: [u8; LENGTH] = [0; LENGTH];

/// The checksum is the sum of the pseudo-header.
const NEEDS_CHECKSUM: u8 = 1;
/// The checksum was checked already.
const CHECKED: u8 = 2;
/// Several datagrams of one size (`VIRTIO_NET_HDR_GSO_UDP_L4`).
const DATAGRAMS: u8 = 5;
/// Congestion was experienced; it is no kind of its own.
const ECN: u8 = 0x80;

/// The work that was left undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undone {
    /// Whether the checksum is only that of the pseudo-header.
    pub(super) is_partial: bool,
    /// Whether the packet need not be checked.
    pub(super) is_trusted: bool,
    /// The length of each of the datagrams that it consists of.
    pub(super) datagrams: Option<usize>,
}

impl Undone {
    /// Parses the header. Returns what stands behind it, too.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, packet) = bytes.split_first_chunk::<LENGTH>()?;
        let [flags, kind, _, _, low, high, ..] = *header;
        let is_partial = flags & NEEDS_CHECKSUM != 0;
        let size = usize::from(u16::from_ne_bytes([low, high]));
        let datagrams = (kind & !ECN == DATAGRAMS && size > 0).then_some(size);
        Some((Self { is_partial, is_trusted: is_partial || flags & CHECKED != 0, datagrams }, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_undone_is_read() {
        let plain = Undone { is_partial: false, is_trusted: false, datagrams: None };
        assert_eq!(Undone::parse(&[0; 12]), Some((plain, &[0, 0][..])));
        let [low, high] = 1_200u16.to_ne_bytes();
        let bytes = [1, 5, 0, 0, low, high, 0, 0, 0, 0];
        let (undone, rest) = Undone::parse(&bytes).unwrap();
        assert_eq!(undone, Undone { is_partial: true, is_trusted: true, datagrams: Some(1_200) });
        assert!(rest.is_empty());
        assert_eq!(Undone::parse(&[0; 9]), None);
    }
}
