//! An allocator that searches freed memory, for tests that secrets are wiped.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The length of what is searched for, bytes.
pub const LENGTH: usize = 8;
const MOST: usize = 32;
/// Parts are kept and compared under this mask, so that the search leaves none on the stack itself.
const MASK: u64 = 0x5a96_3cc3_69a5_0ff1;

static MARKERS: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static HITS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread reports a hit, which allocates.
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

/// Searches each block that is freed from now on for these parts of a secret, besides what is searched for already.
/// A hit prints where the block was freed.
///
/// # Panics
/// If there are too many.
pub fn watch<'a>(secret: impl IntoIterator<Item = &'a [u8; LENGTH]>) {
    for part in secret {
        let at = COUNT.load(Ordering::Acquire);
        MARKERS[at].store(u64::from_ne_bytes(*part) ^ MASK, Ordering::Release);
        COUNT.store(at + 1, Ordering::Release);
    }
}

/// The number of blocks that were freed with a part of a secret in them.
pub fn hits() -> usize {
    HITS.load(Ordering::Acquire)
}

fn search(block: &[u8]) {
    let markers = &MARKERS[..COUNT.load(Ordering::Acquire)];
    if markers.is_empty() {
        return;
    }
    let marker_of = |part: &[u8]| {
        let part = part.first_chunk().map(|part| u64::from_ne_bytes(*part) ^ MASK);
        markers.iter().position(|marker| part == Some(marker.load(Ordering::Relaxed)))
    };
    let found = block.windows(LENGTH).enumerate().find_map(|(at, part)| Some((at, marker_of(part)?)));
    let Some((at, marker)) = found else { return };
    if !REPORTING.replace(true) {
        HITS.fetch_add(1, Ordering::AcqRel);
        let (size, trace) = (block.len(), Backtrace::force_capture());
        eprintln!("a block of {size} bytes with the part {marker} at {at} is freed here:\n{trace}");
        REPORTING.set(false);
    }
}

/// The system's allocator with the search. A test's binary makes it its `#[global_allocator]`. It reallocates by
/// copying, so the search sees each block that a growing buffer leaves behind.
#[derive(Clone, Copy, Debug)]
pub struct Searching;

#[allow(unsafe_code, reason = "an allocator is unsafe by its nature; this one hands everything on")]
// SAFETY: everything is passed to the system's allocator.
unsafe impl GlobalAlloc for Searching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Zeroed, so that the search reads nothing uninitialized.
        // SAFETY: the caller guarantees the requirements.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the block is of this size, was initialized when it was allocated, and has no user any more.
        search(unsafe { std::slice::from_raw_parts(at, layout.size()) });
        // SAFETY: the caller guarantees the requirements.
        unsafe { System.dealloc(at, layout) }
    }
}
