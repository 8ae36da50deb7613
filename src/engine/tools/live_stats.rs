//! A writer's figures, for other processes: the keeper that syncs writes them to the file `STATS` about once a second, and whoever
//! wants to see what a running store does reads them there, without opening it.
//!
//! Invariants:
//! 1. Nothing depends on the file: what cannot be written, removed or understood is left, and is never an error of the store's.
//! 2. It is written only while its writer has the writer's lock, and an opening removes what it finds before it lets anybody else ask
//!    (`Opening`). So a file that is found while that lock is held is of whoever holds it; any other is of a process that died.
//! 3. It is never synced, and no write of the store's waits for it.
//!
//! Where no other process can look, on a simulated disk, there is no file (`Storage::wall_time`).

use crate::engine::directory::locks;
use crate::engine::directory::store_files::{self, Found, STATS};
use crate::engine::engine::Engine;
use crate::engine::types::stats::{BackgroundKind, BackgroundTask, LevelStats, Stats};
use crate::format::stats_file::{FILE_BYTES_MAX, LEVEL_FIGURES, StatsImage, TaskImage};
use crate::io::{OpenMode, Storage, StorageFile};
use crate::util::sync::{Arc, Mutex, Ordering};
use crate::util::{Error, Result};
use std::time::Duration;

/// Figures are written so often, where they changed.
const INTERVAL: Duration = Duration::from_secs(1);
/// And no more than this part of the time goes into gathering them: a large tree has many references to count.
const SHARE: u32 = 100;
/// Whoever reads while the file is written over looks again.
const READINGS_MAX: u32 = 20;
const BETWEEN_READINGS: Duration = Duration::from_millis(1);

/// What the process that has a store open for writing told last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveStats {
    /// Its figures. Keys of tasks are cut to 64 bytes.
    pub stats: Stats,
    /// Its id, in its own process namespace.
    pub process: u32,
    /// How long ago it told them, by the system's clock. It tells them about once a second, as long as they change.
    pub age: Duration,
}

/// Writes the file. Any thread; the keeper's in fact.
#[derive(Debug, Default)]
pub(crate) struct Publisher(Mutex<Published>);

#[derive(Debug, Default)]
struct Published {
    /// Not before then again.
    due: Option<Duration>,
    file: Option<Arc<dyn StorageFile>>,
    /// What the file says, but for when.
    last: Option<StatsImage>,
}

impl Publisher {
    /// Whether enough time has passed. The first time comes one interval after the first call, so that a store that is
    /// open for a moment leaves no trace.
    fn is_due(&self, now: Duration) -> bool {
        now >= *self.0.lock().due.get_or_insert(now + INTERVAL)
    }

    /// Writes the figures where they are others than those that the file has. `took`: to gather them, until `now`.
    fn publish(&self, storage: &dyn Storage, stats: Stats, wall_time: Duration, (now, took): (Duration, Duration)) {
        let mut published = self.0.lock();
        published.due = Some(now + INTERVAL.max(took * SHARE));
        let image = image_of(stats);
        // A snapshot that gets older is no news.
        if published.last.as_ref().is_some_and(|last| last.without_age() == image.without_age()) {
            return;
        }
        let written_at = u64::try_from(wall_time.as_millis()).unwrap_or(u64::MAX);
        let bytes = StatsImage { process: std::process::id(), written_at, ..image.clone() }.encode();
        let written = match published.file.clone() {
            Some(file) => Ok(file),
            None => storage.open(STATS, OpenMode::Create),
        }
        .and_then(|file| file.write_all_at(&bytes, 0).map(|()| file));
        match written {
            Ok(file) => (published.file, published.last) = (Some(file), Some(image)),
            Err(_) => {
                // Also where it was made and could not be written.
                (published.file, published.last) = (None, None);
                let _ = storage.remove(STATS);
            }
        }
    }

    /// Removes the file, if there is one.
    pub(crate) fn withdraw(&self, storage: &dyn Storage) {
        if self.0.lock().file.take().is_some() {
            // What stays is found by the next opening.
            let _ = storage.remove(STATS);
        }
    }
}

impl Engine {
    /// Tells the figures to other processes, if it is time to, or in any case.
    pub(crate) fn publish_stats(&self, in_any_case: bool) {
        let Some(wall_time) = self.storage.wall_time() else { return };
        let started = self.clock.now();
        if self.closed.load(Ordering::Acquire) || !(self.publisher.is_due(started) || in_any_case) {
            return;
        }
        let stats = self.stats();
        let now = self.clock.now();
        self.publisher.publish(&*self.storage, stats, wall_time, (now, now.saturating_sub(started)));
    }
}

/// Reads what the writer of a store told last; `None` where there is none, or it has not told anything yet.
pub(crate) fn read(storage: &dyn Storage) -> Result<Option<LiveStats>> {
    if store_files::inspect(storage)? != Found::Store {
        return Err(Error::NoStore { path: storage.path().to_path_buf(), reason: "nothing is there".into() });
    }
    let Some(_opening) = locks::opening_beside_writer(storage)? else { return Ok(None) };
    for reading in 0..READINGS_MAX {
        if reading > 0 {
            storage.clock().sleep(BETWEEN_READINGS);
        }
        let Some(bytes) = read_file(storage)? else { return Ok(None) };
        let (Some(image), Some(wall_time)) = (StatsImage::decode(&bytes), storage.wall_time()) else { continue };
        let age = wall_time.saturating_sub(Duration::from_millis(image.written_at));
        return Ok(Some(LiveStats { process: image.process, age, stats: stats_of(image) }));
    }
    // Of another version, or damaged. Nothing depends on it.
    Ok(None)
}

fn read_file(storage: &dyn Storage) -> Result<Option<Vec<u8>>> {
    let read = || {
        let file = storage.open(STATS, OpenMode::Read)?;
        let mut bytes = vec![0; file.length()?.min(FILE_BYTES_MAX as u64) as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// In the order in which the file numbers them: new ones go to the end.
const KINDS: [BackgroundKind; 12] = [
    BackgroundKind::Incorporate,
    BackgroundKind::Flush,
    BackgroundKind::Merge,
    BackgroundKind::SampleLeaf,
    BackgroundKind::Split,
    BackgroundKind::BuildMaplet,
    BackgroundKind::RewriteLive,
    BackgroundKind::Remove,
    BackgroundKind::Drain,
    BackgroundKind::CleanVersions,
    BackgroundKind::KeepSpace,
    BackgroundKind::Join,
];

/// The counters, in the order in which the file has them: new ones go to the end.
fn counters(stats: &mut Stats) -> [&mut u64; 43] {
    [
        &mut stats.last_number,
        &mut stats.synced_number,
        &mut stats.incorporated_number,
        &mut stats.branch_files,
        &mut stats.branch_bytes,
        &mut stats.value_files,
        &mut stats.log_bytes,
        &mut stats.log_memory_bytes,
        &mut stats.log_memory_refused,
        &mut stats.memory_entries,
        &mut stats.memory_bytes,
        &mut stats.generations,
        &mut stats.cache_bytes,
        &mut stats.cache_hits,
        &mut stats.cache_misses,
        &mut stats.memory_budget,
        &mut stats.snapshots,
        &mut stats.writes,
        &mut stats.user_bytes,
        &mut stats.logged_bytes,
        &mut stats.incorporated_bytes,
        &mut stats.compacted_bytes,
        &mut stats.scan_compacted_bytes,
        &mut stats.incorporations,
        &mut stats.jobs,
        &mut stats.debt_bytes,
        &mut stats.slowed_writes,
        &mut stats.slowed_ns,
        &mut stats.stalled_writes,
        &mut stats.stalled_ns,
        &mut stats.longest_delay_ns,
        &mut stats.ballast_bytes,
        &mut stats.items,
        &mut stats.item_hits,
        &mut stats.splits,
        &mut stats.joins,
        &mut stats.live_rewrites,
        &mut stats.reused_bytes,
        &mut stats.garbage_bytes,
        &mut stats.garbage_slowed_writes,
        &mut stats.garbage_slowed_ns,
        &mut stats.conflicts,
        &mut stats.retried_updates,
    ]
}

/// What stands before the counters: the oldest snapshot's age in milliseconds and the write limit, both plus one, and two bits.
const LEADING: usize = 3;

impl StatsImage {
    fn without_age(&self) -> Self {
        let mut image = self.clone();
        image.counters[..1].fill(0);
        image
    }
}

fn image_of(mut stats: Stats) -> StatsImage {
    let plus_one = |figure: Option<u64>| figure.map_or(0, |figure| figure.saturating_add(1));
    let age = stats.oldest_snapshot.map(|age| age.as_millis() as u64);
    let bits = u64::from(stats.background_paused) | u64::from(stats.disk_full) << 1;
    let leading: [u64; LEADING] = [plus_one(age), plus_one(stats.background_write_limit), bits];
    let counters = leading.into_iter().chain(counters(&mut stats).into_iter().map(|counter| *counter));
    StatsImage {
        counters: counters.collect(),
        levels: stats.levels.iter().map(level_figures).collect(),
        tasks: stats.running.into_iter().map(task_image).collect(),
        failure: stats.failure,
        ..StatsImage::default()
    }
}

fn stats_of(image: StatsImage) -> Stats {
    let mut told = image.counters.into_iter();
    let mut leading = [0; LEADING];
    leading.iter_mut().zip(&mut told).for_each(|(figure, told)| *figure = told);
    let mut stats = Stats {
        levels: image.levels.into_iter().map(level_of).collect(),
        running: image.tasks.into_iter().filter_map(task_of).collect(),
        oldest_snapshot: leading[0].checked_sub(1).map(Duration::from_millis),
        background_write_limit: leading[1].checked_sub(1),
        background_paused: leading[2] & 1 != 0,
        disk_full: leading[2] & 2 != 0,
        failure: image.failure,
        ..Stats::default()
    };
    counters(&mut stats).into_iter().zip(told).for_each(|(counter, told)| *counter = told);
    stats
}

fn level_figures(level: &LevelStats) -> [u64; LEVEL_FIGURES] {
    let LevelStats { height, nodes, bundles, branches, bytes, entries, runs, probes, tombstones } = *level;
    [height.into(), nodes, bundles, branches, bytes, entries, runs, probes, tombstones]
}

fn level_of(
    [height, nodes, bundles, branches, bytes, entries, runs, probes, tombstones]: [u64; LEVEL_FIGURES],
) -> LevelStats {
    LevelStats { height: height as u32, nodes, bundles, branches, bytes, entries, runs, probes, tombstones }
}

fn task_image(task: BackgroundTask) -> TaskImage {
    let figures = [
        task.kind as u64,
        task.node.map_or(0, |node| node.saturating_add(1)),
        task.height.map_or(0, |height| u64::from(height) + 1),
        task.bytes_done,
        task.bytes_total,
        task.bytes_written,
        task.runs_for.as_millis() as u64,
        task.paused.into(),
    ];
    TaskImage { figures, from: task.from, to: task.to }
}

/// `None` for a kind that only a later version knows.
fn task_of(TaskImage { figures, from, to }: TaskImage) -> Option<BackgroundTask> {
    let [kind, node, height, bytes_done, bytes_total, bytes_written, runs_for, paused] = figures;
    Some(BackgroundTask {
        kind: *KINDS.get(usize::try_from(kind).ok()?)?,
        node: node.checked_sub(1),
        height: height.checked_sub(1).map(|height| height as u32),
        from,
        to,
        bytes_done,
        bytes_total,
        bytes_written,
        runs_for: Duration::from_millis(runs_for),
        paused: paused != 0,
    })
}

#[cfg(test)]
mod tests;
