//! Bytes for each bucket, as the allocator sees them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

use crate::bars::Bars;
use crate::contender::{Governor, Load, Tollward};
use crate::policy::DEFAULT_MAX_BUCKETS;
use crate::table::{Row, Table};

const KEYS: u32 = 1_000_000;

pub(crate) fn run(table: &mut Table, bars: &mut Bars) {
    let load = Load::Refused;
    let each = |bytes: f64| bytes / f64::from(KEYS);
    let governor = each(held(|| Governor::<1>::new(load, KEYS)).1);
    for (what, max_buckets) in [
        ("memory, room for 4 million", DEFAULT_MAX_BUCKETS),
        ("memory, room for 1.1 million", 1_100_000),
    ] {
        let tollward = each(held(|| Tollward::<1>::new(load, KEYS, max_buckets)).1);
        table.push(
            Row::figure(what, "bytes/bucket", tollward)
                .grid(KEYS, 1)
                .against("governor", governor)
                .ratio(format!("{:.2}x", governor / tollward)),
        );
        bars.bytes(tollward);
    }
}

/// What `fill` makes, and the bytes that it and all that it left behind hold.
pub(crate) fn held<T>(fill: impl FnOnce() -> T) -> (T, f64) {
    HELD.store(0, Relaxed);
    COUNT.store(true, Relaxed);
    let filled = fill();
    COUNT.store(false, Relaxed);
    (filled, HELD.load(Relaxed) as f64)
}

static COUNT: AtomicBool = AtomicBool::new(false);
static HELD: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, which counts what is held while it is told to.
pub(crate) struct Counting;

#[inline]
fn count(bytes: isize) {
    if COUNT.load(Relaxed) {
        HELD.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}
