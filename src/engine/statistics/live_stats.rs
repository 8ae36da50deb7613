//! Statistics for other processes: the background work that syncs also writes the statistics to the file `STATS`,
//! about once a second while the store is in use. Other processes read them there without opening the store.
//!
//! Invariants:
//! 1. Nothing depends on the file. If it cannot be written, removed or parsed, that is never an error of the store.
//! 2. The file is written only while its writer holds the writer's lock, and an opening removes an old file before it
//!    releases the lock *opening*. So a file that is found while the writer's lock is held belongs to the holder. Any
//!    other file is left over from a process that died.
//! 3. The file is never synced, and no write of the store waits for it.
//!
//! On a simulated disk, which other processes cannot read, there is no file (`Storage::wall_time`).

use crate::engine::directory::locks;
use crate::engine::directory::store_files::{self, Found, STATS};
use crate::engine::types::stats::{BackgroundKind, BackgroundTask, LevelStats, LiveStats, Stats};
use crate::format::stats_file::{FILE_BYTES_MAX, LEVEL_FIGURES, StatsImage, TaskImage};
use crate::io::{OpenMode, Storage};
use crate::util::sync::Mutex;
use crate::util::{Error, Result};
use std::time::Duration;

/// Statistics are written this often, if they changed.
const INTERVAL: Duration = Duration::from_secs(1);
/// At most this fraction of the time goes into gathering statistics, since a large tree has many references to count.
const TIME_FRACTION: u32 = 100;
/// A reader that meets a partly written file retries this often.
const READINGS_MAX: u32 = 20;
const BETWEEN_READINGS: Duration = Duration::from_millis(1);

/// Writes the file. Any thread may call it; the pool's threads do.
#[derive(Debug, Default)]
pub(crate) struct Publisher(Mutex<Published>);

#[derive(Debug, Default)]
struct Published {
    /// The next time to write.
    due: Option<Duration>,
    /// Whether this process has created the file. It is opened for each write: an idle store has no descriptor of it.
    exists: bool,
    /// The content of the file, except for the time.
    last: Option<StatsImage>,
}

impl Publisher {
    /// Whether the interval has passed. It starts with the first call, so a store that is open for a moment writes no
    /// file.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now >= *self.0.lock().due.get_or_insert(now + INTERVAL)
    }

    /// Writes the statistics if they changed. Gathering them `took` this long, until `now`.
    pub(crate) fn publish(
        &self,
        storage: &dyn Storage,
        stats: Stats,
        wall_time: Duration,
        (now, took): (Duration, Duration),
    ) {
        let mut published = self.0.lock();
        published.due = Some(now + INTERVAL.max(took * TIME_FRACTION));
        let image = image_of(stats);
        // A snapshot that gets older is no change.
        if published.last.as_ref().is_some_and(|last| last.without_age() == image.without_age()) {
            return;
        }
        let written_at = u64::try_from(wall_time.as_millis()).unwrap_or(u64::MAX);
        let bytes = StatsImage { process: std::process::id(), written_at, ..image.clone() }.encode();
        let mode = if published.exists { OpenMode::ReadWrite } else { OpenMode::Create };
        let written = storage.open(STATS, mode).and_then(|file| file.write_all_at(&bytes, 0));
        (published.exists, published.last) = (written.is_ok(), written.is_ok().then_some(image));
        if written.is_err() {
            // It may have been created but not written.
            let _ = storage.remove(STATS);
        }
    }

    /// Removes the file, if it exists.
    pub(crate) fn withdraw(&self, storage: &dyn Storage) {
        if std::mem::take(&mut self.0.lock().exists) {
            // If this fails, the next opening removes the file.
            let _ = storage.remove(STATS);
        }
    }
}

/// Reads the latest statistics of a store's writer; `None` if there is no writer or it has published none yet.
pub(crate) fn read(storage: &dyn Storage) -> Result<Option<LiveStats>> {
    if store_files::inspect(storage)? != Found::Store {
        return Err(Error::NoStore {
            path: storage.path().to_path_buf(),
            reason: "the directory holds no store".into(),
        });
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
    // The file is damaged or has another format. Nothing depends on it.
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

/// The kinds in the order of their numbers in the file. New kinds go to the end.
const KINDS: [BackgroundKind; 13] = [
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
    BackgroundKind::PopulateIndex,
];

/// The counters in their order in the file. New counters go to the end.
fn counters(stats: &mut Stats) -> [&mut u64; 83] {
    let [skip0, skip1, skip2, skip3, skip4, skip5, skip6] = &mut stats.skipped;
    let [runs1, runs2, runs3, runs4, runs6, runs8, runs16, more_runs] = &mut stats.searches;
    [
        &mut stats.last_number,
        &mut stats.synced_number,
        &mut stats.incorporated_number,
        &mut stats.branch_files,
        &mut stats.branch_bytes,
        &mut stats.value_files,
        &mut stats.log_bytes,
        &mut stats.log_shadow_bytes,
        &mut stats.log_shadows_refused,
        &mut stats.log_discarded_writes,
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
        skip0,
        skip1,
        skip2,
        skip3,
        skip4,
        skip5,
        skip6,
        &mut stats.buffer_bytes,
        &mut stats.parent_bytes,
        &mut stats.buffered_bytes,
        &mut stats.transition_bytes,
        &mut stats.checkpoint_bytes,
        &mut stats.buffered_rows,
        &mut stats.quiet_compacted_bytes,
        &mut stats.quiet_credit_bytes,
        &mut stats.cache_leaf_bytes,
        &mut stats.cache_index_bytes,
        &mut stats.cache_filter_bytes,
        runs1,
        runs2,
        runs3,
        runs4,
        runs6,
        runs8,
        runs16,
        more_runs,
        &mut stats.rows_ahead,
        &mut stats.read_waits,
        &mut stats.read_wait_ns,
        &mut stats.compaction_filter_removed,
        &mut stats.compaction_filter_replaced,
        &mut stats.compaction_filter_panics,
        &mut stats.compaction_filter_refused,
        &mut stats.compaction_filter_repeated,
        &mut stats.ingested_bytes,
        &mut stats.ingests,
        &mut stats.change_bytes,
        &mut stats.changes_after,
        &mut stats.changes_lost,
    ]
}

/// Figures in front of the counters: the oldest snapshot's age in milliseconds plus one, the write limit plus one, and
/// two flag bits.
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
    let mut figures = image.counters.into_iter();
    let mut leading = [0; LEADING];
    leading.iter_mut().zip(&mut figures).for_each(|(leading, figure)| *leading = figure);
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
    counters(&mut stats).into_iter().zip(figures).for_each(|(counter, figure)| *counter = figure);
    stats
}

fn level_figures(level: &LevelStats) -> [u64; LEVEL_FIGURES] {
    let LevelStats { height, nodes, bundles, branches, bytes, entries, runs, probes, tombstones, cache_misses } =
        *level;
    [height.into(), nodes, bundles, branches, bytes, entries, runs, probes, tombstones, cache_misses]
}

fn level_of(
    [height, nodes, bundles, branches, bytes, entries, runs, probes, tombstones, cache_misses]: [u64; LEVEL_FIGURES],
) -> LevelStats {
    let height = height as u32;
    LevelStats { height, nodes, bundles, branches, bytes, entries, runs, probes, tombstones, cache_misses }
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

/// `None` for a kind that only a newer version knows.
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
