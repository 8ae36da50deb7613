//! RocksDB with leveled compaction, configured by its tuning guide for point reads and writes on few cores.

use super::setup::{Defaults, MIB, Opened, STRIPED, Setting, Setup, mib, setting};
use super::versions;
use alluvium_bench::engine::{Direction, Engine, Figures, Level, Result};
use alluvium_bench::{Increments, LevelKnobs, Striped, counter};
use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType, MergeOperands, Options, WaitForCompactOptions,
    WriteBatch, WriteOptions,
};

const WRITE_BUFFERS: i32 = 3;
const BLOOM_BITS: f64 = 10.0;
/// The levels that are allowed where their sizes are named, and by default.
const LEVELS: i32 = 7;
/// How many times the bytes of a level the next deeper one may have, by default.
const SIZE_RATIO: u32 = 10;
/// The interval and the fairness of the write limit: the library's defaults.
const LIMIT_REFILL_US: i64 = 100_000;
const LIMIT_FAIRNESS: i32 = 10;
/// The block cache of a store with defaults that is read at random; the default is 32 MiB.
const POINT_READ_CACHE_BYTES: u64 = 128 * MIB;

struct Rocks {
    db: DB,
    options: Options,
    sync: bool,
}

/// Opens it.
pub fn open(setup: &Setup) -> Result<Opened> {
    let (options, settings) = configured(setup)?;
    let db = DB::open(&options, &setup.directory)?;
    let engine = Striped::new(Rocks { db, options, sync: setup.sync }, Increments::Own);
    Ok(Opened { engine: Box::new(engine), version: version(), settings })
}

/// Its options, and the words for them.
pub fn configured(setup: &Setup) -> Result<(Options, Vec<Setting>)> {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_hyper_clock_cache(usize::try_from(setup.cache_bytes())?, 0));
    table.set_bloom_filter(BLOOM_BITS, false);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    table.set_data_block_hash_ratio(0.75);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(usize::try_from(setup.write_buffer_bytes())?);
    options.set_max_write_buffer_number(WRITE_BUFFERS);
    options.set_max_background_jobs(i32::try_from(setup.background_threads)?);
    options.set_bytes_per_sync(1 << 20);
    options.set_max_open_files(-1);
    let compaction = shape(&mut options, setup.levels);
    if let Some(bytes) = setup.item_cache {
        options.set_row_cache(&Cache::new_lru_cache(usize::try_from(bytes)?));
    }
    if let Some(limit) = setup.write_limit {
        options.set_ratelimiter(i64::try_from(limit)?, LIMIT_REFILL_US, LIMIT_FAIRNESS);
    }
    options.set_merge_operator_associative("add", add);
    options.enable_statistics();
    options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
    let mut settings = vec![
        mib("block cache (hyper clock)", setup.cache_bytes()),
        mib("write buffer", setup.write_buffer_bytes()),
        setting("write buffers", WRITE_BUFFERS),
        setting("background jobs", setup.background_threads),
        setting("compaction", compaction),
        setting("filter", format!("Bloom, {BLOOM_BITS} bits per key")),
        setting("block index", "binary search and hash"),
        setting("compression", "none"),
        setting("log", if setup.sync { "on, every write synced" } else { "on, not synced" }),
        setting("statistics", "tickers only"),
        setting("files read through", "the page cache, within the limit"),
        setting("read-modify-write", STRIPED),
        setting("counters", "an associative merge operator, without locks"),
    ];
    settings.extend(setup.item_cache.map(|bytes| mib("row cache", bytes)));
    settings.extend(setup.write_limit.map(|limit| mib("background writes a second", limit)));
    Ok((options, settings))
}

/// Levels of named sizes are those of RocksDB 4.6.1: each has its own size, the deepest one too. Without a size they follow
/// the data. Returns the words for the settings.
fn shape(options: &mut Options, levels: LevelKnobs) -> String {
    let Some(base) = levels.base_bytes else { return "leveled, dynamic level sizes".into() };
    let ratio = levels.size_ratio.unwrap_or(SIZE_RATIO);
    options.set_level_compaction_dynamic_level_bytes(false);
    options.set_num_levels(LEVELS);
    options.set_max_bytes_for_level_base(base);
    options.set_max_bytes_for_level_multiplier(ratio.into());
    let mut words = format!("leveled, {LEVELS} levels, first level {base} bytes, ratio {ratio}");
    if let Some(bytes) = levels.file_bytes {
        options.set_target_file_size_base(bytes);
        words += &format!(", files of {bytes} bytes");
    }
    words
}

/// Opens it with its default options, for point reads also with filters and a larger block cache.
pub fn open_default(defaults: &Defaults) -> Result<Opened> {
    let mut options = Options::default();
    options.create_if_missing(true);
    let mut settings = vec![setting("options", "defaults")];
    if defaults.for_point_reads {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(usize::try_from(POINT_READ_CACHE_BYTES)?));
        table.set_bloom_filter(BLOOM_BITS, false);
        options.set_block_based_table_factory(&table);
        settings.push(setting("filter", format!("Bloom, {BLOOM_BITS} bits per key")));
        settings.push(mib("block cache", POINT_READ_CACHE_BYTES));
    }
    let db = DB::open(&options, &defaults.directory)?;
    Ok(Opened { engine: Box::new(Rocks { db, options, sync: false }), version: version(), settings })
}

/// The merge operator of counters.
fn add(_: &[u8], counter: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let sum = operands.iter().fold(counter::of(counter), |sum, by| sum.wrapping_add(counter::of(Some(by))));
    Some(counter::bytes(sum).into())
}

/// RocksDB's own version follows the plus sign of the binding crate's version.
pub fn version() -> String {
    let bound = versions::of("librocksdb-sys");
    bound.rsplit('+').next().unwrap_or(bound).to_owned()
}

impl Rocks {
    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.set_sync(self.sync);
        options
    }

    fn ticker(&self, ticker: Ticker) -> u64 {
        self.options.get_ticker_count(ticker)
    }
}

impl Engine for Rocks {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.sync {
            false => self.db.put(key, value)?,
            true => self.db.put_opt(key, value, &self.write_options())?,
        }
        Ok(())
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.db.write_opt(batch, &self.write_options())?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete_opt(key, &self.write_options())?)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let Some(found) = self.db.get_pinned(key)? else { return Ok(false) };
        value.extend_from_slice(&found);
        Ok(true)
    }

    fn scan(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut iterator = self.db.raw_iterator();
        match (direction, from) {
            (Direction::Forward, None) => iterator.seek_to_first(),
            (Direction::Forward, Some(from)) => iterator.seek(from),
            (Direction::Backward, None) => iterator.seek_to_last(),
            (Direction::Backward, Some(from)) => iterator.seek_for_prev(from),
        }
        let mut visited = 0;
        while visited < limit {
            let Some((key, value)) = iterator.item() else { break };
            visit(key, value);
            visited += 1;
            if visited < limit {
                match direction {
                    Direction::Forward => iterator.next(),
                    Direction::Backward => iterator.prev(),
                }
            }
        }
        iterator.status()?;
        Ok(visited)
    }

    fn increment(&self, key: &[u8], by: u64) -> Result<()> {
        match self.sync {
            false => self.db.merge(key, counter::bytes(by))?,
            true => self.db.merge_opt(key, counter::bytes(by), &self.write_options())?,
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        Ok(self.db.wait_for_compact(&options)?)
    }

    /// Every file of level 0 is a run; the other levels have one each.
    fn levels(&self) -> Vec<Level> {
        // The benchmark has no use for a list that RocksDB cannot make.
        let files = self.db.live_files().unwrap_or_default();
        let deepest = files.iter().filter_map(|file| usize::try_from(file.level).ok()).max();
        let mut levels = vec![Level::default(); deepest.map_or(0, |deepest| deepest + 1)];
        for file in &files {
            let Some((at, level)) = usize::try_from(file.level).ok().and_then(|at| Some((at, levels.get_mut(at)?)))
            else {
                continue;
            };
            level.runs = if at == 0 { level.runs + 1 } else { 1 };
            level.probes = level.runs;
            level.entries += file.num_entries;
        }
        levels
    }

    fn figures(&self) -> Figures {
        Figures {
            data_bytes_written: Some(self.ticker(Ticker::FlushWriteBytes) + self.ticker(Ticker::CompactWriteBytes)),
            log_bytes_written: Some(self.ticker(Ticker::WalFileBytes)),
            stalled_ns: Some(self.ticker(Ticker::StallMicros) * 1000),
            ..Figures::default()
        }
    }
}
