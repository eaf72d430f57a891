//! Whether compressing is of use. What does not shrink is noticed and left alone for a while.

/// Bytes over which the saving is judged.
const JUDGED: usize = 64 * 1024;
/// The least saving: one part in so many.
const LEAST: usize = 20;
/// Bytes that are left alone after a bad judgement, before another attempt.
const REST: usize = 1 << 20;

/// The first bytes of compressed and sealed data: images, archives, video, sound, and keys being exchanged.
const BEGINNINGS: [&[u8]; 22] = [
    b"\x1f\x8b",
    b"\xff\xd8\xff",
    b"\x89PNG",
    b"GIF8",
    b"PK\x03\x04",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\0",
    b"BZh",
    b"7z\xbc\xaf",
    b"\x04\x22\x4d\x18",
    b"Rar!",
    b"OggS",
    b"fLaC",
    b"ID3",
    b"\x1aE\xdf\xa3",
    b"wOF2",
    b"RIFF",
    b"SSH-",
    b"\0\0\0\x18ftyp",
    b"\0\0\0\x1cftyp",
    b"\0\0\0\x20ftyp",
    b"\0\0\0\x14ftyp",
];

/// Judges one direction of a flow.
#[derive(Debug)]
pub(super) enum Judge {
    /// Nothing has come yet.
    New,
    /// Compressing. So many bytes became so many, since the last judgement.
    Trying { plain: usize, packed: usize },
    /// So many more bytes are left alone.
    Resting(usize),
    /// Data that began as this did never shrinks.
    Never,
}

impl Judge {
    /// Returns whether these bytes, the next, should be compressed.
    pub(super) fn tries(&mut self, next: &[u8]) -> bool {
        if matches!(self, Self::New) {
            *self = if is_compressed(next) { Self::Never } else { Self::Trying { plain: 0, packed: 0 } };
        }
        matches!(self, Self::Trying { .. })
    }

    /// Bytes were compressed.
    pub(super) fn on_packed(&mut self, more: usize, became: usize) {
        let Self::Trying { plain, packed } = self else { return };
        (*plain, *packed) = (*plain + more, *packed + became);
        if *plain < JUDGED {
            return;
        }
        *self = if *packed + *plain / LEAST > *plain {
            Self::Resting(REST)
        } else {
            Self::Trying { plain: 0, packed: 0 }
        };
    }

    /// Bytes were left alone.
    pub(super) fn on_passed(&mut self, bytes: usize) {
        let Self::Resting(left) = self else { return };
        *self = match left.checked_sub(bytes) {
            Some(left @ 1..) => Self::Resting(left),
            _ => Self::Trying { plain: 0, packed: 0 },
        };
    }

    /// No context can be used.
    pub(super) fn on_failed(&mut self) {
        *self = Self::Never;
    }
}

/// Returns whether bytes begin like something that is compressed or sealed.
fn is_compressed(bytes: &[u8]) -> bool {
    // A TLS record (RFC 8446 section 5.1): type, then a version that begins with 3.
    let is_tls = matches!(bytes, [0x14..=0x17, 3, 0..=4, ..]);
    is_tls || BEGINNINGS.iter().any(|beginning| bytes.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_already_never_begins() {
        for first in [
            &b"\x16\x03\x01\x02\0\x01"[..],
            b"\x1f\x8b\x08",
            b"\xff\xd8\xff\xe0",
            b"\x89PNG\r\n",
            b"PK\x03\x04.",
        ] {
            let mut judge = Judge::New;
            assert!(!judge.tries(first) && !judge.tries(b"text"), "{first:?}");
        }
        for first in [&b"<event/>"[..], b"GET / HTTP/1.1", b"", b"\x16\x05"] {
            assert!(Judge::New.tries(first), "{first:?}");
        }
    }

    #[test]
    fn what_does_not_shrink_rests_and_is_tried_again() {
        let mut judge = Judge::New;
        assert!(judge.tries(b"x"));
        judge.on_packed(JUDGED - 1, JUDGED - 1);
        assert!(judge.tries(b"x"), "not judged yet");
        judge.on_packed(1, 1);
        assert!(!judge.tries(b"x"));
        judge.on_passed(REST - 1);
        assert!(!judge.tries(b"x"));
        judge.on_passed(1);
        assert!(judge.tries(b"x"));
        judge.on_packed(JUDGED, JUDGED / 10 * 9);
        assert!(judge.tries(b"x"), "a tenth is worth it");
    }
}
