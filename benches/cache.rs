//! Compares the page cache with a cache crate: `cargo bench --bench cache [PAGES] [OPERATIONS]` (defaults: 100,000
//! pages of 4 KiB, a million operations per thread and round). Needs memory for three times the pages.
//!
//! The crate is `quick_cache`: of the maintained caches (`moka`, `foyer`, `quick_cache`) it has the lowest overhead in
//! memory. A hit takes a shard's read lock and increments a counter; `moka` reports each hit to its policy through a
//! channel, and `foyer` is the front of a disk cache and needs an async runtime. Like our clock, its policy, S3-FIFO,
//! resists scans. Keys are files and page numbers; values are the same pages from the same pool of frames, so only the
//! caches differ. A user of the crate gets a counted reference to the page; our pages are protected by an epoch. The
//! first word of each page is read.
//!
//! - **hit**: every page is cached; pages are chosen uniformly; one pin per look-up.
//! - **hit of 8**: eight look-ups together, as in a get of the store; our cache pins once for all.
//! - **mixed**: four times as many pages as fit, chosen by a zipfian distribution (0.99) and scattered. A missing page
//!   is created (4 KiB are copied, nothing is read) and inserted, which evicts another page.
//!
//! Figures are nanoseconds per operation: elapsed time, and the threads' processor time in brackets; medians of rounds
//! in which the caches alternate.

use alluvium::internals::{CachePart, CachedPage, splitmix64};
use std::hint::black_box;
use std::time::{Duration, Instant};

const FILES: usize = 16;
/// A page, our cache's memory per page beside its bytes, and its share of a page table.
const BYTES_PER_PAGE: usize = 4096 + 128 + 18;
/// The capacity for the cases in which everything must fit: shards never fill evenly.
const ROOM_PERCENT: usize = 110;
const UNIVERSE: usize = 4;
const SKEW: f64 = 0.99;
const ROUNDS: usize = 5;
const GROUP: usize = 8;

/// A cache under measurement. Pages are numbered consecutively; `place` gives file and number.
trait Cache: Sync {
    fn name(&self) -> &'static str;
    fn get(&self, page: u32) -> Option<u64>;
    /// The sum of the first words of the pages that are cached.
    fn get_all(&self, pages: &[u32]) -> u64;
    fn insert(&self, page: u32);
}

/// The file of a page, and its number in that file.
#[inline]
fn place(page: u32) -> (usize, u32) {
    (page as usize % FILES, page / FILES as u32)
}

struct Ours(CachePart);

impl Cache for Ours {
    fn name(&self) -> &'static str {
        "alluvium"
    }

    #[inline]
    fn get(&self, page: u32) -> Option<u64> {
        let (file, number) = place(page);
        self.0.get(file, number, &crossbeam_epoch::pin())
    }

    fn get_all(&self, pages: &[u32]) -> u64 {
        let guard = crossbeam_epoch::pin();
        let found = pages.iter().filter_map(|page| {
            let (file, number) = place(*page);
            self.0.get(file, number, &guard)
        });
        found.sum()
    }

    fn insert(&self, page: u32) {
        let (file, number) = place(page);
        self.0.insert(file, number, CachedPage::new(u64::from(page)));
    }
}

struct Quick(quick_cache::sync::Cache<(u32, u32), CachedPage>);

fn key(page: u32) -> (u32, u32) {
    let (file, number) = place(page);
    (file as u32, number)
}

impl Cache for Quick {
    fn name(&self) -> &'static str {
        "quick_cache"
    }

    #[inline]
    fn get(&self, page: u32) -> Option<u64> {
        self.0.get(&key(page)).map(|page| page.name())
    }

    fn get_all(&self, pages: &[u32]) -> u64 {
        pages.iter().filter_map(|page| self.get(*page)).sum()
    }

    fn insert(&self, page: u32) {
        self.0.insert(key(page), CachedPage::new(u64::from(page)));
    }
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the struct, which outlives it.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(answer, 0, "every thread has a clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The result of a round: nanoseconds per operation, elapsed and of processor time, and the hit rate.
#[derive(Clone, Copy, Default)]
struct Round {
    clock_ns: f64,
    processor_ns: f64,
    hits: f64,
}

/// Every thread has its own trace and uses a new part of it in each round, so that no cache can adapt to it. `work`
/// returns how many of the given pages it found.
fn round(traces: &[Vec<u32>], number: usize, work: &(dyn Fn(&[u32]) -> usize + Sync)) -> Round {
    let started = Instant::now();
    let done: Vec<(Duration, usize)> = std::thread::scope(|scope| {
        let threads: Vec<_> = traces
            .iter()
            .map(|trace| {
                let part = trace.len() / (ROUNDS + 1);
                let trace = &trace[number * part..][..part];
                scope.spawn(move || {
                    let before = processor_time();
                    let hits = work(trace);
                    (processor_time() - before, hits)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    let operations: usize = traces.iter().map(|trace| trace.len() / (ROUNDS + 1)).sum();
    let processor: Duration = done.iter().map(|(processor, _)| *processor).sum();
    Round {
        clock_ns: started.elapsed().as_nanos() as f64 * traces.len() as f64 / operations as f64,
        processor_ns: processor.as_nanos() as f64 / operations as f64,
        hits: done.iter().map(|(_, hits)| *hits).sum::<usize>() as f64 / operations as f64,
    }
}

/// The medians of rounds in which the caches alternate, one per cache; the first round warms up.
fn turns(caches: &[&dyn Cache], once: impl Fn(&dyn Cache, usize) -> Round) -> Vec<Round> {
    let mut rounds = vec![Vec::new(); caches.len()];
    for at in 0..=ROUNDS {
        for (cache, rounds) in caches.iter().zip(&mut rounds) {
            let round = once(*cache, at);
            if at > 0 {
                rounds.push(round);
            }
        }
    }
    let median = |rounds: &Vec<Round>, of: fn(&Round) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let medians = |rounds: &Vec<Round>| Round {
        clock_ns: median(rounds, |round| round.clock_ns),
        processor_ns: median(rounds, |round| round.processor_ns),
        hits: median(rounds, |round| round.hits),
    };
    rounds.iter().map(medians).collect()
}

fn uniform(pages: usize, operations: usize, seed: u64) -> Vec<u32> {
    let mut state = seed;
    (0..operations).map(|_| (splitmix64(&mut state) % pages as u64) as u32).collect()
}

/// Cumulative zipfian weights by rank.
fn weights(pages: usize) -> Vec<f64> {
    let mut sum = 0.0;
    let weight = |rank: usize| {
        sum += 1.0 / (rank as f64 + 1.0).powf(SKEW);
        sum
    };
    (0..pages).map(weight).collect()
}

/// Pages at random places, drawn by the weight of their rank.
fn zipfian(weights: &[f64], scattered: &[u32], operations: usize, seed: u64) -> Vec<u32> {
    let (mut state, all) = (seed, weights[weights.len() - 1]);
    let draw = |_| {
        let at = (splitmix64(&mut state) >> 11) as f64 / (1_u64 << 53) as f64 * all;
        scattered[weights.partition_point(|sum| *sum <= at).min(scattered.len() - 1)]
    };
    (0..operations).map(draw).collect()
}

fn shuffled(pages: usize) -> Vec<u32> {
    let (mut order, mut state): (Vec<u32>, u64) = ((0..pages as u32).collect(), 7);
    for at in (1..pages).rev() {
        order.swap(at, (splitmix64(&mut state) % (at as u64 + 1)) as usize);
    }
    order
}

fn caches(pages: usize) -> (Ours, Quick) {
    (Ours(CachePart::new(pages * BYTES_PER_PAGE, FILES as u64)), Quick(quick_cache::sync::Cache::new(pages)))
}

fn print(what: &str, threads: usize, caches: &[&dyn Cache], rounds: &[Round]) {
    for (cache, Round { clock_ns, processor_ns, hits }) in caches.iter().zip(rounds) {
        let name = cache.name();
        println!("{what:<10} {threads:>7}  {name:<12} {clock_ns:>8.1} ({processor_ns:>7.1}) {:>9.2}%", hits * 100.0);
    }
}

fn hits(pages: usize, operations: usize) {
    let (ours, quick) = caches(pages * ROOM_PERCENT / 100);
    let caches: [&dyn Cache; 2] = [&ours, &quick];
    caches.iter().for_each(|cache| (0..pages as u32).for_each(|page| cache.insert(page)));
    for threads in [1, 2] {
        let traces: Vec<Vec<u32>> =
            (0..threads).map(|thread| uniform(pages, operations * (ROUNDS + 1), thread as u64)).collect();
        let single = |cache: &dyn Cache, number| {
            round(&traces, number, &|trace| {
                trace.iter().filter(|page| cache.get(**page) == Some(u64::from(**page))).count()
            })
        };
        print("hit", threads, &caches, &turns(&caches, single));
        let together = |cache: &dyn Cache, number| {
            round(&traces, number, &|trace| {
                trace.chunks(GROUP).for_each(|pages| _ = black_box(cache.get_all(pages)));
                trace.len()
            })
        };
        print("hit of 8", threads, &caches, &turns(&caches, together));
    }
}

fn mixed(pages: usize, operations: usize) {
    let universe = pages * UNIVERSE;
    let (weights, scattered) = (weights(universe), shuffled(universe));
    let (ours, quick) = caches(pages);
    let caches: [&dyn Cache; 2] = [&ours, &quick];
    for threads in [1, 2] {
        let all = operations * (ROUNDS + 1);
        let trace = |thread| zipfian(&weights, &scattered, all, 100 + thread as u64);
        let traces: Vec<Vec<u32>> = (0..threads).map(trace).collect();
        let work = |cache: &dyn Cache, number| {
            round(&traces, number, &|trace| {
                let found = |page: &&u32| {
                    let found = cache.get(**page) == Some(u64::from(**page));
                    if !found {
                        cache.insert(**page);
                    }
                    found
                };
                trace.iter().filter(found).count()
            })
        };
        print("mixed", threads, &caches, &turns(&caches, work));
    }
    let guard = crossbeam_epoch::pin();
    let held = (0..universe as u32).filter(|page| ours.0.get(place(*page).0, place(*page).1, &guard).is_some()).count();
    println!("held at the end: alluvium {held} pages, quick_cache {}, of {universe}", quick.0.len());
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (pages, operations): (usize, usize) = (number(100_000), number(1_000_000));
    println!(
        "{pages} pages of 4 KiB, {operations} operations a thread and round; ns an operation: clock (processor), hits"
    );
    println!("{:<10} {:>7}  {:<12} {:>8} ({:>7}) {:>10}", "", "threads", "", "clock", "cpu", "hits");
    hits(pages, operations);
    mixed(pages, operations);
}
