//! `load`: writes many pairs in batches, with a progress bar and a report.
//!
//! 1. Every input is opened before the store is created, so a wrong file name does not create an empty store.
//! 2. The load stops at a bad line unless `--skip-bad` is given: all pairs before the line are written, none after it.
//! 3. Memory is bounded by one batch (`loader.rs`). With `--sorted` there are no batches, and a bad line leaves nothing.

use super::loader::{Loaded, Loader, add_final_statistics};
use crate::arguments::{Common, Load};
use crate::failure::Failure;
use crate::input::{Input, InputError, Pair, Pairs, Reading};
use crate::progress::Progress;
use crate::report::Report;
use crate::ycsb;
use alluvium::limits::VALUE_BYTES_MAX;
use std::io::{self, IsTerminal};
use std::path::Path;

/// The most bad lines that are shown.
const BAD_LINES_SHOWN_MAX: u64 = 10;

/// Loads the pairs and prints a report.
pub fn run(common: &Common, load: &Load) -> Result<(), Failure> {
    common.directory()?;
    let inputs = inputs(load)?;
    let progress = match load.ycsb {
        Some(records) => Progress::of_pairs(records),
        None => Progress::of_bytes(inputs.iter().map(|input| input.length).sum()),
    };
    let db = common.open_or_create()?;
    let keyspace = load.within.open_or_create(&db)?;
    let mut loader = match load.sorted {
        true => Loader::of_sorted(&db, keyspace, &progress)?,
        false => Loader::new(&db, (keyspace, common.write_options()), load.batch, &progress),
    };
    let mut skipped = 0;
    let reading = Reading { hex: common.hex, literal: load.literal, header: load.header };
    let loading = match load.ycsb {
        Some(records) => load_pairs(&mut loader, generated(records, load), load, &progress, &mut skipped),
        None => inputs.into_iter().try_for_each(|input| {
            let pairs = input.pairs(reading, |reader| progress.wrap(reader));
            load_pairs(&mut loader, pairs, load, &progress, &mut skipped)
        }),
    };
    let finished = if load.sorted && loading.is_err() {
        loader.abandon();
        Ok(())
    } else {
        loader.finish()
    };
    progress.finish();
    let loaded = loader.loaded();
    loading.map_err(|failure| explain(failure, load.sorted, &loaded)).and(finished)?;
    let mut report = Report::new();
    loaded.add_to(&mut report);
    if load.skip_bad {
        report.count("skipped", "bad lines skipped", skipped);
    }
    add_final_statistics(&mut report, &db, load.settle)?;
    db.close()?;
    report.print(common.json)
}

/// Opens the inputs.
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
                "nothing to load: pass files, - for standard input, or --ycsb N; see `alluvium load --help`"
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
                "cannot determine the format of {} from its name: pass --format tsv, --format csv or --format jsonl",
                path.display()
            ))
        })
    };
    load.files.iter().map(|path| open(path.as_path())).collect()
}

/// The pairs that `--ycsb` generates.
fn generated(records: u64, load: &Load) -> Pairs {
    let (seed, size) = (load.seed, load.value_size as usize);
    Box::new(
        (0..records).map(move |record| Ok(Pair { key: ycsb::key(record), value: ycsb::value(seed, record, size) })),
    )
}

/// Adds to the message how to continue past a bad line.
fn explain(failure: Failure, is_sorted: bool, loaded: &Loaded) -> Failure {
    match failure {
        Failure::Input(InputError::Bad { name, line, why }) => {
            let why = match is_sorted {
                true => format!("{why}\nnothing is loaded; fix the line and load again"),
                false => format!(
                    "{why}\nthe {} pairs before it are loaded; fix the line and load again, or pass --skip-bad",
                    loaded.keys
                ),
            };
            Failure::Input(InputError::Bad { name, line, why })
        }
        other => other,
    }
}

/// Loads all pairs of one input. The last batch may stay open for the next input.
fn load_pairs(
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
