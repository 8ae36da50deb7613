//! Alluvium behind the trait, by its public interface alone, as a user's program would call it.

use crate::checkpoints::Checkpoints;
use crate::counter;
use crate::engine::{
    Buffered, Component, Direction, Engine, EngineOptions, Factory, Figures, Level, LevelKnobs, Result, SKIPS,
};
use crate::striped::{Increments, Striped};
use alluvium::{
    Change, ChangeRetention, Compression, Db, DiskComponent, Durability, LevelFilters, LevelsOptions, MemoryComponent,
    Options, Stats, WriteBatch, WriteOptions, merge_operators,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The store rests once it has done nothing for this long: more than twice what it waits before it begins.
const RESTED: Duration = Duration::from_secs(5);
/// The longest wait for that.
const REST_MAX: Duration = Duration::from_secs(600);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Opens Alluvium stores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alluvium;

impl Factory for Alluvium {
    fn name(&self) -> &str {
        "alluvium"
    }

    fn open(&self, directory: &Path, options: &EngineOptions) -> Result<Box<dyn Engine>> {
        Ok(Box::new(open(directory, options, MemoryComponent::TwoLevel)?))
    }

    fn is_log(&self, path: &Path) -> bool {
        is_log(path)
    }
}

/// Opens Alluvium stores whose memory is a skiplist alone, as in most stores, to compare the two levels with.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleLevel;

impl Factory for SingleLevel {
    fn name(&self) -> &str {
        "single-level"
    }

    fn open(&self, directory: &Path, options: &EngineOptions) -> Result<Box<dyn Engine>> {
        Ok(Box::new(open(directory, options, MemoryComponent::Skiplist)?))
    }

    fn is_log(&self, path: &Path) -> bool {
        is_log(path)
    }
}

/// Opens Alluvium stores that write without log, to see what the log costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlogged;

impl Factory for Unlogged {
    fn name(&self) -> &str {
        "unlogged"
    }

    fn open(&self, directory: &Path, options: &EngineOptions) -> Result<Box<dyn Engine>> {
        let plain = store_options(options, MemoryComponent::TwoLevel);
        Ok(Box::new(open_with(directory, options, plain.durability(Durability::Unlogged))?))
    }

    fn is_log(&self, path: &Path) -> bool {
        is_log(path)
    }
}

/// Opens Alluvium stores whose read-modify-writes are a get and a put under a lock, to compare its own with.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlluviumStriped;

impl Factory for AlluviumStriped {
    fn name(&self) -> &str {
        "alluvium-striped"
    }

    fn open(&self, directory: &Path, options: &EngineOptions) -> Result<Box<dyn Engine>> {
        let store = open(directory, options, MemoryComponent::TwoLevel)?;
        Ok(Box::new(Striped::new(store, Increments::Striped)))
    }

    fn is_log(&self, path: &Path) -> bool {
        is_log(path)
    }
}

fn open(directory: &Path, options: &EngineOptions, memory_component: MemoryComponent) -> Result<Store> {
    open_with(directory, options, store_options(options, memory_component))
}

fn open_with(directory: &Path, options: &EngineOptions, store_options: Options) -> Result<Store> {
    let has_buffers = options.component == Some(Component::Skip) && options.levels.buffer_bytes != Some(0);
    let checkpoints = options.levels.checkpoint_every.map(Checkpoints::new);
    let db = Db::open(directory, store_options)?;
    Ok(Store { db: Arc::new(db), checkpoints, has_buffers })
}

/// The options of a store that is set as the benchmarks say.
pub fn store_options(options: &EngineOptions, memory_component: MemoryComponent) -> Options {
    let durability = if options.sync { Durability::Sync } else { Durability::Buffered };
    let each = |size: Option<u64>| size.map(|size| options.each(size));
    let (memory_budget, write_buffer) = (each(options.memory), each(options.write_buffer));
    let maplets = !options.plain_filters;
    let compression = if options.compressed { Compression::Lz4 } else { Compression::None };
    let disk_component = options.component.map(|component| match component {
        Component::Trunk => DiskComponent::Trunk,
        Component::Leveled => DiskComponent::Levels(shaped(LevelsOptions::leveled(), options.levels)),
        Component::Tiered => DiskComponent::Levels(shaped(LevelsOptions::tiered(), options.levels)),
        Component::Skip => DiskComponent::Levels(shaped(skipping(options.levels), options.levels)),
    });
    Options::new()
        .memory_budget(memory_budget)
        .write_buffer(write_buffer)
        .durability(durability)
        .memory_component(memory_component)
        .disk_component(disk_component)
        .maplets(maplets)
        .compression(compression)
        .background_write_limit(each(options.write_limit))
        .change_retention(options.kept_changes.map(ChangeRetention::new))
        .merge_operator(merge_operators::Add)
}

/// The preset of levels whose keys skip some.
fn skipping(knobs: LevelKnobs) -> LevelsOptions {
    let preset = LevelsOptions::skip();
    let max_skip = knobs.max_skip.unwrap_or(preset.max_skip);
    let buffer_bytes = knobs.buffer_bytes.or(preset.buffer_bytes);
    preset.max_skip(max_skip).buffer_bytes(buffer_bytes)
}

/// How many items skipped how many levels. A trunk has no levels to skip.
fn skipped(stats: &Stats) -> Option<[u64; SKIPS]> {
    (stats.disk_component != "trunk").then_some(stats.skipped)
}

fn shaped(preset: LevelsOptions, knobs: LevelKnobs) -> LevelsOptions {
    // With more than one run below level 0 the store would not be leveled any more.
    let is_tiered = preset.runs_per_level > 1;
    preset
        .clone()
        .runs_per_level(knobs.runs.filter(|_| is_tiered).unwrap_or(preset.runs_per_level))
        .level0_runs(knobs.runs.unwrap_or(preset.level0_runs))
        .merge_percent(knobs.merge_percent.unwrap_or(preset.merge_percent))
        .filter_bits(knobs.filter_bits.unwrap_or(preset.filter_bits))
        .filters(knobs.filter_bits.map_or(preset.filters, |_| LevelFilters::Equal))
        .size_ratio(knobs.size_ratio.unwrap_or(preset.size_ratio))
        .base_level_bytes(knobs.base_bytes.or(preset.base_level_bytes))
        .file_bytes(knobs.file_bytes.or(preset.file_bytes))
}

fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    [".log", ".free", ".log.new"].iter().any(|end| name.ends_with(end))
}

struct Store {
    db: Arc<Db>,
    checkpoints: Option<Checkpoints>,
    /// Whether what skips levels waits in memory.
    has_buffers: bool,
}

impl Engine for Store {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put(key, value)?;
        self.checkpoints.as_ref().map_or(Ok(()), |checkpoints| checkpoints.note_put(&self.db))
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in pairs {
            batch.put(*key, *value);
        }
        Ok(self.db.write(batch)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete(key)?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        Ok(self.db.get_into(key, value)?)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        // A new iterator for every scan, as users create it: a reused one would read an old snapshot.
        let mut iter = self.db.iter()?;
        match (from, direction) {
            (None, Direction::Forward) => iter.seek_first()?,
            (None, Direction::Backward) => iter.seek_last()?,
            (Some(key), Direction::Forward) => iter.seek(key)?,
            (Some(key), Direction::Backward) => iter.seek_for_prev(key)?,
        }
        let mut visited = 0;
        while visited < limit {
            let Some((key, value)) = iter.pair() else { break };
            visit(key, value);
            visited += 1;
            if visited < limit {
                match direction {
                    Direction::Forward => iter.step()?,
                    Direction::Backward => iter.step_back()?,
                }
            }
        }
        Ok(visited)
    }

    fn update(&self, key: &[u8], change: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> bool) -> Result<()> {
        self.db.update_with(key, WriteOptions::default(), |old| {
            let mut new = Vec::new();
            if change(old, &mut new) { Change::Put(new) } else { Change::Keep }
        })?;
        Ok(())
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.db.put_if_absent(key, value)?)
    }

    /// A merge, which reads nothing.
    fn increment(&self, key: &[u8], by: u64) -> Result<()> {
        Ok(self.db.merge(key, counter::bytes(by))?)
    }

    fn settle(&self) -> Result<()> {
        self.checkpoints.as_ref().map_or(Ok(()), Checkpoints::wait)?;
        self.db.flush()?;
        Ok(self.db.settle()?)
    }

    fn rest(&self) -> Result<()> {
        let look = || {
            let stats = self.db.stats();
            (stats.running.len(), stats.jobs, stats.quiet_credit_bytes)
        };
        let (started, mut seen, mut since) = (Instant::now(), look(), Instant::now());
        while since.elapsed() < RESTED && started.elapsed() < REST_MAX {
            std::thread::sleep(BETWEEN_LOOKS);
            let now = look();
            if now != seen || now.0 > 0 {
                (seen, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        let stats = self.db.stats();
        Figures {
            data_bytes_written: Some(stats.incorporated_bytes + stats.ingested_bytes + stats.compacted_bytes),
            log_bytes_written: Some(stats.logged_bytes),
            stalled_ns: Some(stats.slowed_ns),
            buffers_written: Some(stats.incorporations),
            skipped: skipped(&stats),
            buffered: self.has_buffers.then_some(Buffered {
                left: stats.buffered_bytes,
                recorded: stats.transition_bytes,
                checkpointed: stats.checkpoint_bytes,
                scanned: stats.buffered_rows,
            }),
        }
    }

    fn levels(&self) -> Vec<Level> {
        let levels = self.db.stats().levels;
        levels.iter().map(|level| Level { runs: level.runs, probes: level.probes, entries: level.entries }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &Path) -> Box<dyn Engine> {
        Alluvium.open(directory, &EngineOptions { memory: Some(16 << 20), ..EngineOptions::default() }).unwrap()
    }

    fn scanned(engine: &dyn Engine, from: Option<&[u8]>, direction: Direction, limit: u64) -> String {
        let mut keys = String::new();
        let visited = engine.scan(from, direction, limit, &mut |key, _| keys.push(char::from(key[0]))).unwrap();
        assert_eq!(visited as usize, keys.len());
        keys
    }

    #[test]
    fn a_rest_is_long_enough_for_what_is_done_in_quiet_times() {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(directory.path());
        for round in 0..4u32 {
            let keys = (0..5000u32).map(|key| (key.wrapping_mul(2_654_435_761) ^ round).to_be_bytes());
            keys.for_each(|key| engine.put(&key, &[7; 100]).unwrap());
            engine.settle().unwrap();
        }
        let before = engine.figures().data_bytes_written;
        engine.rest().unwrap();
        let after = engine.figures().data_bytes_written;
        assert!(before < after, "{before:?} bytes written, {after:?} after a rest");
        engine.rest().unwrap();
        assert_eq!(engine.figures().data_bytes_written, after, "it does not rest");
    }

    #[test]
    fn every_method_does_what_the_trait_says() {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(directory.path());
        engine.put(b"b", b"1").unwrap();
        engine.put_batch(&[(b"d", b"2"), (b"f", b"3"), (b"h", b"4")]).unwrap();
        let mut value = b"left over".to_vec();
        assert!(engine.get(b"d", &mut value).unwrap() && value == b"2");
        assert!(!engine.get(b"e", &mut value).unwrap());
        for (from, direction, limit, keys) in [
            (None, Direction::Forward, 10, "bdfh"),
            (None, Direction::Backward, 3, "hfd"),
            (Some(&b"d"[..]), Direction::Forward, 2, "df"),
            (Some(b"e"), Direction::Forward, 1, "f"),
            (Some(b"e"), Direction::Backward, 9, "db"),
            (Some(b"z"), Direction::Forward, 9, ""),
            (None, Direction::Forward, 0, ""),
        ] {
            assert_eq!(scanned(engine.as_ref(), from, direction, limit), keys);
        }
        engine
            .update(b"b", &mut |old, new| {
                new.extend_from_slice(old.unwrap_or(b"none"));
                new.push(b'!');
                true
            })
            .unwrap();
        engine.update(b"b", &mut |_, _| false).unwrap();
        assert!(!engine.put_if_absent(b"b", b"2").unwrap() && engine.put_if_absent(b"c", b"2").unwrap());
        engine.delete(b"c").unwrap();
        assert!(engine.get(b"b", &mut value).unwrap() && value == b"1!");
        engine.delete(b"b").unwrap();
        engine.settle().unwrap();
        let figures = engine.figures();
        assert!(figures.data_bytes_written > Some(0) && figures.log_bytes_written > Some(0), "{figures:?}");
        drop(engine);
        assert_eq!(scanned(open(directory.path()).as_ref(), None, Direction::Forward, 9), "dfh");
        for (name, is_log) in
            [("000001.log", true), ("000002.free", true), ("000003.branch", false), ("MANIFEST", false)]
        {
            assert_eq!(Alluvium.is_log(&directory.path().join(name)), is_log, "{name}");
        }
    }

    #[test]
    fn an_unlogged_store_logs_no_values() {
        let logged = |factory: &dyn Factory| {
            let directory = tempfile::tempdir().unwrap();
            let options = EngineOptions { memory: Some(16 << 20), ..EngineOptions::default() };
            let engine = factory.open(directory.path(), &options).unwrap();
            (0..1000u32).for_each(|key| engine.put(&key.to_be_bytes(), &[7; 1000]).unwrap());
            engine.figures().log_bytes_written.unwrap()
        };
        let (with, without) = (logged(&Alluvium), logged(&Unlogged));
        assert!(with > 1000 * 1000 && without < with / 10, "{with} and {without} bytes logged");
    }

    /// What keeps the data on disk, and in how many runs each level that is not empty has it, is what the options say.
    #[test]
    fn components_and_their_knobs_reach_the_store() {
        let runs = |component, levels| {
            let directory = tempfile::tempdir().unwrap();
            let options = EngineOptions { memory: Some(16 << 20), component, levels, ..EngineOptions::default() };
            let engine = Alluvium.open(directory.path(), &options).unwrap();
            for round in 0..6u8 {
                (0..100u8).for_each(|key| engine.put(&[key, round], b"value").unwrap());
                engine.settle().unwrap();
            }
            assert_eq!(engine.figures().buffers_written, Some(6));
            let levels = engine.levels();
            assert_eq!(levels.iter().map(|level| level.entries).sum::<u64>(), 600);
            levels.iter().map(|level| level.runs).filter(|runs| *runs > 0).collect::<Vec<u64>>()
        };
        let knobs = |runs, merge_percent| LevelKnobs {
            runs: Some(runs),
            merge_percent: Some(merge_percent),
            ..LevelKnobs::default()
        };
        assert_eq!(runs(Some(Component::Tiered), LevelKnobs::default()), [6]);
        let bits = shaped(LevelsOptions::tiered(), LevelKnobs { filter_bits: Some(3), ..LevelKnobs::default() });
        assert_eq!((bits.filter_bits, bits.filters), (3, LevelFilters::Equal));
        assert_eq!(shaped(LevelsOptions::tiered(), LevelKnobs::default()), LevelsOptions::tiered());
        let (size_ratio, base_bytes, file_bytes) = (Some(4), Some(1 << 20), Some(1 << 18));
        let sizes = LevelKnobs { size_ratio, base_bytes, file_bytes, ..LevelKnobs::default() };
        let sized = shaped(LevelsOptions::leveled(), sizes);
        assert_eq!((sized.size_ratio, sized.base_level_bytes, sized.file_bytes), (4, base_bytes, file_bytes));
        assert_eq!(runs(Some(Component::Skip), LevelKnobs::default()), [2, 1]);
        let buffers = |bytes| skipping(LevelKnobs { buffer_bytes: bytes, ..LevelKnobs::default() }).buffer_bytes;
        assert_eq!([None, Some(0), Some(9)].map(buffers), [None, Some(0), Some(9)]);
        assert_eq!(runs(Some(Component::Tiered), knobs(4, 100)), [2, 1]);
        // Half of four runs go down at a time: after the fourth and the sixth.
        assert_eq!(runs(Some(Component::Tiered), knobs(4, 50)), [2, 2]);
        // In a leveled store level 0 has one run after each merge of four.
        assert_eq!(runs(Some(Component::Leveled), LevelKnobs::default()), [2, 1]);
        assert_eq!(runs(Some(Component::Leveled), knobs(3, 100)), [1]);
    }
}
