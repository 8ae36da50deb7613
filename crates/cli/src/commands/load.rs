//! `load`: many pairs in batches, with a progress bar and a report.
//!
//! 1. Every input is opened before the store is made, so a wrong file name leaves no empty store behind.
//! 2. At a bad line the load ends (unless told to skip it): everything before it is written, nothing behind it.
//! 3. Memory is bounded by one batch (`loader.rs`).

use super::loader::{Loaded, Loader, tell_end};
use crate::arguments::{Common, Load};
use crate::failure::Failure;
use crate::input::{Input, InputError, Pair, Pairs, Reading};
use crate::progress::Progress;
use crate::report::Report;
use crate::ycsb;
use alluvium::limits::VALUE_BYTES_MAX;
use std::io::{self, IsTerminal};
use std::path::Path;

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
    let mut loader = Loader::new(&db, load.batch, &progress);
    let mut skipped = 0;
    let reading = Reading { hex: common.hex, literal: load.literal, header: load.header };
    let taken = match load.ycsb {
        Some(records) => take(&mut loader, generated(records, load), load, &progress, &mut skipped),
        None => inputs.into_iter().try_for_each(|input| {
            let pairs = input.pairs(reading, |reader| progress.watch(reader));
            take(&mut loader, pairs, load, &progress, &mut skipped)
        }),
    };
    let finished = loader.finish();
    progress.finish();
    let loaded = loader.loaded();
    taken.map_err(|failure| explain(failure, &loaded)).and(finished)?;
    let mut report = Report::new();
    loaded.tell(&mut report);
    if load.skip_bad {
        report.count("skipped", "bad lines skipped", skipped);
    }
    tell_end(&mut report, &db, load.settle)?;
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
fn explain(failure: Failure, loaded: &Loaded) -> Failure {
    match failure {
        Failure::Input(InputError::Bad { name, line, why }) => {
            let why = format!(
                "{why}\nthe {} pairs before it are loaded; mend the line and load again, or pass --skip-bad",
                loaded.keys
            );
            Failure::Input(InputError::Bad { name, line, why })
        }
        other => other,
    }
}

/// Loads all pairs of one input; the last batch may wait for more.
fn take(
    loader: &mut Loader<'_>,
    pairs: Pairs,
    load: &Load,
    progress: &Progress,
    skipped: &mut u64,
) -> Result<(), Failure> {
    for pair in pairs {
        match pair {
            Ok(pair) => loader.add(pair)?,
            Err(bad @ InputError::Bad { .. }) if load.skip_bad => {
                *skipped += 1;
                if *skipped <= BAD_LINES_SHOWN_MAX {
                    progress.say(&format!("alluvium: skipped {bad}"));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
