//! A counting allocator, for tests that limit allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Switches counting of this thread's allocations on or off. It is off at first.
pub fn switch(on: bool) {
    COUNTING.set(on);
}

/// The number of allocations counted.
pub fn calls() -> u64 {
    CALLS.get()
}

/// The bytes allocated while counting, minus those freed meanwhile.
pub fn bytes() -> i64 {
    BYTES.get()
}

fn count(calls: u64, bytes: i64) {
    if COUNTING.get() {
        CALLS.set(CALLS.get() + calls);
        BYTES.set(BYTES.get() + bytes);
    }
}

/// The system's allocator with counting. A test's binary makes it its `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

#[allow(unsafe_code, reason = "an allocator is unsafe by its nature; this one hands everything on")]
// SAFETY: everything is passed to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller guarantees the requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: the caller guarantees the requirements.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, size as i64 - layout.size() as i64);
        // SAFETY: the caller guarantees the requirements.
        unsafe { System.realloc(at, layout, size) }
    }
}
