//! Nanoseconds of the hot paths, each by itself, and of whole puts and gets: `cargo bench --bench parts [-- NAME]`.
//!
//! A figure is the processor time of one operation in the calling thread, so other programs on the machine matter less,
//! and waiting for the disk does not count. Batches of 1,000 operations are timed (a build as a whole); work between
//! batches is not.

mod cases;

use cases::{Case, Existing, Fresh, LARGE, Place, SMALL, Stored, Walk, forget_store, make_store, warmed};
use criterion::{Criterion, criterion_group, criterion_main};
use std::time::Duration;

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the struct, which outlives it.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(answer, 0, "every thread has a clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Measures a case, which is created only if the command line selects it.
fn measure(criterion: &mut Criterion, name: &str, make: impl Fn() -> Box<dyn Case>) {
    let mut made = None;
    criterion.bench_function(name, |bencher| {
        let case = made.get_or_insert_with(&make);
        bencher.iter_custom(|operations| {
            let batches = operations.div_ceil(case.operations());
            let mut took = Duration::ZERO;
            for _ in 0..batches {
                case.ready();
                let started = processor_time();
                case.run();
                took += processor_time() - started;
            }
            took.mul_f64(operations as f64 / (batches * case.operations()) as f64)
        });
    });
}

fn memory(criterion: &mut Criterion) {
    for (size, entries) in [("60,000", SMALL), ("600,000", LARGE)] {
        let mut part =
            |name: &str, make: &dyn Fn() -> Box<dyn Case>| measure(criterion, &format!("{name}, {size}"), make);
        part("skiplist insert", &|| warmed(cases::MemtableInsert::new(entries)));
        part("skiplist search", &|| warmed(cases::SkiplistSearch::new(entries)));
        part("memtable get, hit", &|| warmed(cases::MemtableGet::new(entries, true)));
        part("memtable get, miss", &|| warmed(cases::MemtableGet::new(entries, false)));
    }
}

fn log(criterion: &mut Criterion) {
    measure(criterion, "log append", || warmed(cases::LogAppend::new()));
}

fn files(criterion: &mut Criterion) {
    measure(criterion, "filter build, a key of 60,000", || warmed(cases::FilterBuild::new(SMALL)));
    measure(criterion, "filter probe, hit, 600,000", || warmed(cases::FilterProbe::new(LARGE, true)));
    measure(criterion, "filter probe, miss, 600,000", || warmed(cases::FilterProbe::new(LARGE, false)));
    for (nodes, place) in [(1, "in cache"), (16, "out of cache")] {
        for branches in [8, 24] {
            let mut probe = |what: &str, make: &dyn Fn() -> Box<dyn Case>| {
                measure(criterion, &format!("{what} of {branches} branches, {place}"), make);
            };
            probe("filter probes", &|| warmed(cases::FiltersProbe::new(branches, nodes)));
            probe("maplet probe", &|| warmed(cases::MapletProbe::new(branches, nodes)));
        }
    }
    measure(criterion, "maplet build, a key of 8 x 60,000", || warmed(cases::MapletBuild::new()));
    measure(criterion, "maplet merge, an entry of 8 x 60,000", || warmed(cases::MapletMerge::new()));
    measure(criterion, "branch build, an entry of 60,000", || warmed(cases::BranchBuild::new(SMALL)));
    measure(criterion, "page search, 4 KiB", || warmed(cases::PageSearch::new()));
    measure(criterion, "merge step, 2 sources", || warmed(cases::Merge::new(2)));
    measure(criterion, "merge step, 8 sources", || warmed(cases::Merge::new(8)));
}

/// A case on the store of `make_store`.
fn on_store<C: Case + 'static>(make: impl Fn() -> C) -> Box<dyn Case> {
    make_store();
    let mut case = warmed(make());
    case.warm_all();
    case
}

fn whole(criterion: &mut Criterion) {
    measure(criterion, "put, new key, 60,000", || warmed(Fresh::new()));
    measure(criterion, "put, existing key, 60,000", || warmed(Existing::new()));
    measure(criterion, "get in memory, hit, 60,000", || warmed(Stored::new(Place::Memory, true)));
    measure(criterion, "get in memory, miss, 60,000", || warmed(Stored::new(Place::Memory, false)));
    forget_store();
    measure(criterion, "get in files, hit, 600,000", || on_store(|| Stored::new(Place::Files, true)));
    measure(criterion, "get in files, miss, 600,000", || on_store(|| Stored::new(Place::Files, false)));
    measure(criterion, "seek, 600,000", || on_store(|| Walk::new(true)));
    measure(criterion, "next, 600,000", || on_store(|| Walk::new(false)));
    forget_store();
}

criterion_group! {
    name = parts;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = memory, log, files, whole
}
criterion_main!(parts);
