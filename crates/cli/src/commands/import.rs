//! `import`: the data of another store's directory, with a progress bar and a report.
//!
//! The other store is opened first, so a wrong directory leaves no empty store behind; it is only read.

use super::loader::{Loader, tell_end};
use crate::arguments::{Common, Import, ImportFrom};
use crate::failure::Failure;
use crate::input::Pair;
use crate::progress::Progress;
use crate::report::Report;
use alluvium::limits::KEY_BYTES_MAX;
use alluvium_leveldb_files::{Database, LeftOut, Options, Pairs};

/// Pairs that are written together.
const BATCH_PAIRS: u64 = 1000;
/// Of a key that is too long.
const KEY_BYTES_SHOWN: usize = 32;
/// Losses that are listed.
const LISTED_MAX: usize = 10;

/// Imports and reports.
pub fn run(common: &Common, import: &Import) -> Result<(), Failure> {
    let ImportFrom::Leveldb = import.from;
    let target = common.directory()?;
    if let (Ok(target), Ok(source)) = (target.canonicalize(), import.source.canonicalize())
        && target == source
    {
        return Err(Failure::Usage(format!(
            "{} cannot be loaded into itself; give --db a new directory",
            source.display()
        )));
    }
    let source = Database::open(&import.source, Options { skip_damaged: import.skip_damaged })?;
    let (tables, logs) = source.files();
    let source_bytes = source.bytes();
    let progress = Progress::of_bytes(Some(source_bytes));
    let mut pairs = source.pairs().map_err(|error| explain(error.into(), 0))?;
    let db = common.open_or_create()?;
    let mut loader = Loader::new(&db, BATCH_PAIRS, &progress);
    let mut long_keys = 0;
    let taken = take(&mut loader, &mut pairs, import.skip_long_keys.then_some(&mut long_keys), &progress);
    let finished = loader.finish();
    progress.finish();
    let loaded = loader.loaded();
    let too_long = taken.map_err(|failure| explain(failure, loaded.keys))?;
    finished?;
    if let Some(key) = too_long {
        return Err(of_long_key(&key, loaded.keys));
    }
    let mut report = Report::new();
    loaded.tell(&mut report);
    report.count("tables", "table files read", tables as u64).count("logs", "log files read", logs as u64).size(
        "source_bytes",
        "their bytes",
        source_bytes,
    );
    tell_losses(&mut report, pairs.left_out());
    report.count("long_keys", "keys left out as too long", long_keys);
    tell_end(&mut report, &db, import.settle)?;
    db.close()?;
    report.print(common.json)
}

/// Loads them all. Keys that are too long are counted, if they are to be left out; else it stops at one and gives it.
fn take(
    loader: &mut Loader<'_>,
    pairs: &mut Pairs,
    mut long_keys: Option<&mut u64>,
    progress: &Progress,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut since = 0;
    while let Some(pair) = pairs.next() {
        let (key, value) = pair?;
        if key.len() > KEY_BYTES_MAX {
            match &mut long_keys {
                Some(long_keys) => **long_keys += 1,
                None => return Ok(Some(key)),
            }
            continue;
        }
        loader.add(Pair { key, value })?;
        since += 1;
        if since == BATCH_PAIRS {
            since = 0;
            progress.reach(pairs.bytes_read());
        }
    }
    Ok(None)
}

fn of_long_key(key: &[u8], keys: u64) -> Failure {
    let (length, beginning) = (key.len(), key[..KEY_BYTES_SHOWN].escape_ascii());
    let message = format!(
        "the key that begins with \"{beginning}\" has {length} bytes, at most {KEY_BYTES_MAX} fit\n\
         {keys} pairs before it are loaded; --skip-long-keys goes on without such keys, also into what is there now"
    );
    Failure::Source { message, is_damaged: false }
}

/// Adds what a user has to know to go on behind damage.
fn explain(failure: Failure, keys: u64) -> Failure {
    match failure {
        Failure::Source { message, is_damaged: true } => {
            let message = format!(
                "{message}\n{keys} pairs before it are loaded; \
                 --skip-damaged goes on without what is damaged, also into what is there now"
            );
            Failure::Source { message, is_damaged: true }
        }
        other => other,
    }
}

/// What was left out: in words on standard error, counted in the report.
fn tell_losses(report: &mut Report, left_out: &[LeftOut]) {
    for loss in left_out.iter().take(LISTED_MAX) {
        match loss.bytes {
            Some(bytes) => eprintln!("alluvium: left out {bytes} bytes: {}", loss.why),
            None => eprintln!("alluvium: left out: {}", loss.why),
        }
    }
    if left_out.len() > LISTED_MAX {
        eprintln!("alluvium: and {} more", left_out.len() - LISTED_MAX);
    }
    report.count("left_out", "places left out", left_out.len() as u64);
}
