//! The fields of an IP header that a link reads and writes.

/// Returns whether the packet is ECN-capable: ECT(0) or ECT(1), RFC 3168 section 5.
pub(super) fn is_ecn_capable(packet: &[u8]) -> bool {
    matches!(ecn(packet), Some(1 | 2))
}

/// Marks the packet "congestion experienced".
pub(super) fn mark_ce(packet: &mut [u8]) {
    match (version(packet), packet) {
        (Some(4), packet) if packet.len() >= 20 => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] |= 3;
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            let sum = u16::from_be_bytes([packet[10], packet[11]]);
            packet[10..12].copy_from_slice(&mended(sum, before, after).to_be_bytes());
        }
        (Some(6), packet) if packet.len() >= 40 => packet[1] |= 0x30,
        _ => {}
    }
}

/// Returns where the header ends. Bytes after it may be damaged and the packet still arrives.
pub(super) fn payload(packet: &[u8]) -> usize {
    let length = match version(packet) {
        Some(4) => usize::from(packet[0] & 15) * 4,
        Some(6) => 40,
        _ => 0,
    };
    length.min(packet.len())
}

fn version(packet: &[u8]) -> Option<u8> {
    packet.first().map(|byte| byte >> 4)
}

fn ecn(packet: &[u8]) -> Option<u8> {
    let second = *packet.get(1)?;
    match version(packet)? {
        4 => Some(second & 3),
        6 => Some((second >> 4) & 3),
        _ => None,
    }
}

/// Updates the Internet checksum after one 16-bit word has changed: RFC 1624, equation 3.
fn mended(sum: u16, before: u16, after: u16) -> u16 {
    let total = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let folded = (total & 0xffff) + (total >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example header that many explanations of RFC 1071 use: 20 bytes with a correct checksum.
    const HEADER: [u8; 20] =
        [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 192, 168, 0, 1, 192, 168, 0, 199];

    fn is_sound(header: &[u8]) -> bool {
        let total: u32 = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        (total & 0xffff) + (total >> 16) == 0xffff
    }

    #[test]
    fn a_marked_header_is_sound() {
        assert!(is_sound(&HEADER));
        for ect in [1, 2] {
            let mut header = HEADER;
            header[1] = ect;
            let sum = mended(0xb861, 0x4500, 0x4500 | u16::from(ect));
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            assert!(is_sound(&header) && is_ecn_capable(&header));
            mark_ce(&mut header);
            assert_eq!(header[1], 3);
            assert!(is_sound(&header) && !is_ecn_capable(&header));
        }
    }

    #[test]
    fn ipv6_keeps_its_class_in_two_bytes() {
        let mut packet = [0; 48];
        (packet[0], packet[1]) = (0x6f, 0x2a);
        assert!(is_ecn_capable(&packet));
        mark_ce(&mut packet);
        assert_eq!((packet[0], packet[1]), (0x6f, 0x3a));
        assert_eq!(payload(&packet), 40);
    }

    #[test]
    fn what_is_no_packet_is_left_alone() {
        for bytes in [&mut [][..], &mut [0x45], &mut [0x60, 0], &mut [0xff; 64]] {
            assert!(!is_ecn_capable(bytes));
            let before = bytes.to_vec();
            mark_ce(bytes);
            assert_eq!(bytes, before);
            assert!(payload(bytes) <= bytes.len());
        }
    }
}
