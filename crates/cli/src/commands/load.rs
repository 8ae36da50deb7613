//! `load`: many pairs in batches, with a progress bar and a report.
//!
//! 1. Every input is opened before the store is made, so a wrong file name leaves no empty store behind.
//! 2. At a bad line the load ends (unless told to skip it): everything before it is written, nothing behind it.
//! 3. Memory is bounded by one batch, which goes out with its pair that passes `BATCH_BYTES_MAX`.

use crate::arguments::{Common, Load};
use crate::failure::Failure;
use crate::input::{Input, InputError, Pair, Pairs, Reading};
use crate::process;
use crate::progress::Progress;
use crate::report::{Report, grouped};
use crate::ycsb;
use alluvium::base::limits::VALUE_BYTES_MAX;
use alluvium::{Db, WriteBatch};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

/// A batch goes out with this many bytes even if it has fewer pairs than asked for.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// So many bad lines are shown.
const BAD_LINES_SHOWN_MAX: u64 = 10;

/// Loads and reports.
pub fn run(common: &Common, load: &Load) -> Result<(), Failure> {
    common.directory()?;
    let inputs = inputs(load)?;
    let progress = match load.ycsb {
        Some(records) => Progress::of_pairs(records),
        None => Progress::of_bytes(inputs.iter().map(|input| input.length).sum()),
    };
    let db = common.open_or_create()?;
    let mut loader = Loader::new(&db, load, &progress);
    let reading = Reading { hex: common.hex, literal: load.literal, header: load.header };
    let taken = match load.ycsb {
        Some(records) => loader.take(generated(records, load)),
        None => {
            inputs.into_iter().try_for_each(|input| loader.take(input.pairs(reading, |reader| progress.watch(reader))))
        }
    };
    let finished = loader.finish();
    progress.finish();
    let done = loader.done();
    taken.map_err(|failure| explain(failure, &done)).and(finished)?;
    let report = report(&db, load, &done)?;
    db.close()?;
    report.print(common.json)
}

/// Opens what shall be read.
fn inputs(load: &Load) -> Result<Vec<Input>, Failure> {
    if load.ycsb.is_some() {
        if load.value_size > VALUE_BYTES_MAX as u64 {
            return Err(Failure::Usage(format!("--value-size is at most {VALUE_BYTES_MAX} bytes")));
        }
        return Ok(Vec::new());
    }
    if load.files.is_empty() {
        if io::stdin().is_terminal() {
            return Err(Failure::Usage(
                "nothing to load: give files, or - for standard input, or --ycsb N; see `alluvium load --help`"
                    .to_string(),
            ));
        }
        return Ok(vec![Input::standard(load.format)]);
    }
    let open = |path: &Path| {
        if path == Path::new("-") {
            return Ok(Input::standard(load.format));
        }
        Input::file(path, load.format)?.ok_or_else(|| {
            Failure::Usage(format!(
                "the name {} does not tell the format: pass --format tsv, --format csv or --format jsonl",
                path.display()
            ))
        })
    };
    load.files.iter().map(|path| open(path.as_path())).collect()
}

/// The pairs of `--ycsb`.
fn generated(records: u64, load: &Load) -> Pairs {
    let (seed, size) = (load.seed, load.value_size as usize);
    Box::new(
        (0..records).map(move |record| Ok(Pair { key: ycsb::key(record), value: ycsb::value(seed, record, size) })),
    )
}

/// Adds what a user has to know to go on behind a bad line.
fn explain(failure: Failure, done: &Done) -> Failure {
    match failure {
        Failure::Input(InputError::Bad { name, line, why }) => {
            let why = format!(
                "{why}\nthe {} pairs before it are loaded; mend the line and load again, or pass --skip-bad",
                done.keys
            );
            Failure::Input(InputError::Bad { name, line, why })
        }
        other => other,
    }
}

/// What a load did.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    keys: u64,
    bytes: u64,
    skipped: u64,
    elapsed: Duration,
}

/// Gathers pairs into batches and writes them.
struct Loader<'a> {
    db: &'a Db,
    load: &'a Load,
    progress: &'a Progress,
    batch: WriteBatch,
    batch_bytes: usize,
    done: Done,
    started: Instant,
}

impl<'a> Loader<'a> {
    fn new(db: &'a Db, load: &'a Load, progress: &'a Progress) -> Self {
        let (batch, done, started) = (WriteBatch::new(), Done::default(), Instant::now());
        Self { db, load, progress, batch, batch_bytes: 0, done, started }
    }

    /// Writes all pairs of one input; the last batch may wait for more.
    fn take(&mut self, pairs: Pairs) -> Result<(), Failure> {
        for pair in pairs {
            match pair {
                Ok(pair) => self.add(pair)?,
                Err(bad @ InputError::Bad { .. }) if self.load.skip_bad => self.skip(&bad),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn add(&mut self, pair: Pair) -> Result<(), Failure> {
        self.batch_bytes += pair.key.len() + pair.value.len();
        self.batch.put(pair.key, pair.value);
        if self.batch.len() as u64 >= self.load.batch || self.batch_bytes >= BATCH_BYTES_MAX {
            self.write()?;
        }
        Ok(())
    }

    fn skip(&mut self, bad: &InputError) {
        self.done.skipped += 1;
        if self.done.skipped <= BAD_LINES_SHOWN_MAX {
            self.progress.say(&format!("alluvium: skipped {bad}"));
        }
    }

    fn write(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        let (keys, bytes) = (batch.len() as u64, std::mem::take(&mut self.batch_bytes) as u64);
        self.db.write(batch)?;
        self.done.keys += keys;
        self.done.bytes += bytes;
        self.progress.advance(self.done.keys);
        Ok(())
    }

    /// Writes what is left, also behind a bad line, and waits until all of it is on the disk.
    fn finish(&mut self) -> Result<(), Failure> {
        if !self.batch.is_empty() {
            self.write()?;
        }
        Ok(self.db.sync()?)
    }

    fn done(&self) -> Done {
        Done { elapsed: self.started.elapsed(), ..self.done }
    }
}

/// The figures, after the background work if that was asked for.
fn report(db: &Db, load: &Load, done: &Done) -> Result<Report, Failure> {
    let mut report = Report::new();
    // A load of nothing takes no time; a rate of it is 0, not an error.
    let seconds = done.elapsed.as_secs_f64();
    let rate = |number: f64| number / seconds.max(1e-9);
    report.count("keys", "keys", done.keys).size("bytes", "keys and values", done.bytes);
    if load.skip_bad {
        report.count("skipped", "bad lines skipped", done.skipped);
    }
    report
        .decimal("seconds", "seconds, until on the disk", seconds)
        .add("keys_per_second", "keys/s", rate(done.keys as f64).into(), grouped(rate(done.keys as f64) as u64))
        .decimal("megabytes_per_second", "MB/s", rate(done.bytes as f64 / 1e6));
    if load.settle {
        let before = Instant::now();
        db.settle()?;
        report.decimal("settle_seconds", "seconds of background work after it", before.elapsed().as_secs_f64());
    }
    let stats = db.stats();
    report.decimal("write_amplification", "write amplification so far", stats.write_amplification());
    match process::peak_resident_bytes() {
        Some(bytes) => report.size("peak_resident_bytes", "peak memory of the process", bytes),
        None => report.member("peak_resident_bytes", serde_json::Value::Null),
    };
    Ok(report)
}
