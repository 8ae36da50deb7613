//! An allocator that counts the allocations of each thread, and reports where unexpected ones come from.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};

/// The largest number of allocations whose places are recorded.
const PLACES_MAX: u32 = 2000;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    // Without a destructor and initialized by a constant, so that reading them allocates nothing.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes requested, including those freed since.
    static BYTES: Cell<u64> = const { Cell::new(0) };
    /// The number of allocations whose places are still to be recorded.
    static PLACES_LEFT: Cell<u32> = const { Cell::new(0) };
    static PLACES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn count(bytes: usize) {
    BYTES.set(BYTES.get() + bytes as u64);
    let counted = ALLOCATIONS.get() + 1;
    let left = PLACES_LEFT.take();
    if left > 0 {
        // The allocations of `place` itself are not recorded, since `PLACES_LEFT` is zero now, and not counted.
        PLACES.with(|places| places.borrow_mut().push(place()));
        PLACES_LEFT.set(left - 1);
    }
    ALLOCATIONS.set(counted);
}

/// The current calls in the library, innermost first. Each line has a function and its place in a file.
fn place() -> String {
    let backtrace = Backtrace::force_capture().to_string();
    let mut function = "";
    let mut calls = Vec::new();
    for line in backtrace.lines().map(str::trim_start) {
        match line.strip_prefix("at ") {
            // Optimized code names some functions without their module, so the file decides.
            Some(file) if file.starts_with("./src/") => calls.push(format!("{function} at {file}")),
            Some(_) => {}
            None => function = line.split_once(": ").map_or("", |(_, function)| function),
        }
    }
    calls.join("\n")
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches only the calling thread's
// cells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The number of bytes that the calling thread allocates while `work` runs.
pub fn bytes_allocated(work: impl FnOnce()) -> u64 {
    let before = BYTES.get();
    work();
    BYTES.get() - before
}

/// The number of allocations of the calling thread while `work` runs.
pub fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// The places of the calling thread's allocations while `work` runs. Panics if there are more than `PLACES_MAX`.
pub fn places(work: impl FnOnce()) -> Vec<String> {
    PLACES_LEFT.set(PLACES_MAX);
    let found = allocations(work);
    PLACES_LEFT.set(0);
    let places = PLACES.take();
    assert_eq!(
        places.len() as u64,
        found,
        "more allocations than recorded places; the last recorded one:\n{}",
        places[places.len() - 1]
    );
    places
}

/// Panics if the calling thread allocates anything while `work` runs.
pub fn assert_none(what: &str, work: impl FnOnce()) {
    let places = places(work);
    assert!(
        places.is_empty(),
        "{} allocations of the calling thread in {what}; the first:\n{}",
        places.len(),
        places[0]
    );
}

/// Allocations of the calling thread are counted, and no others.
#[test]
fn allocations_are_counted() {
    let found = allocations(|| {
        let mut buffer: Vec<u8> = Vec::with_capacity(10);
        buffer.reserve_exact(std::hint::black_box(10_000));
        drop(std::hint::black_box(buffer));
    });
    assert_eq!(found, 2);
    assert_eq!(allocations(|| std::hint::black_box(())), 0);
    let mut threads = Vec::with_capacity(1);
    let spawning = allocations(|| threads.push(std::thread::spawn(|| ())));
    let theirs = allocations(|| threads.push(std::thread::spawn(|| drop(vec![1_u8; std::hint::black_box(50)]))));
    assert!(theirs <= spawning + 2, "another thread's allocations are counted here: {spawning}, {theirs}");
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
