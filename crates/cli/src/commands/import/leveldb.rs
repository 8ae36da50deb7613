//! `import --from leveldb`: loads the pairs of a LevelDB directory in batches.

use super::{rocksdb_files, too_long_text};
use crate::arguments::Common;
use crate::commands::loader::{Loader, add_final_statistics};
use crate::failure::Failure;
use crate::import_arguments::Import;
use crate::input::Pair;
use crate::progress::Progress;
use crate::report::Report;
use alluvium::limits::KEY_BYTES_MAX;
use alluvium_leveldb_files::{Database, LeftOut, Options, Pairs};

/// Pairs per batch.
const BATCH_PAIRS: u64 = 1000;
/// The most losses that are listed.
const LISTED_MAX: usize = 10;

/// Imports the pairs and prints a report.
pub fn run(common: &Common, import: &Import) -> Result<(), Failure> {
    if !import.column_families.is_empty() {
        return Err(Failure::Usage(
            "--column-family is for databases of RocksDB; LevelDB has no column families".into(),
        ));
    }
    if rocksdb_files::is_database(&import.source) {
        let source = import.source.display();
        let message =
            format!("{source} is a database of RocksDB, whose files LevelDB cannot read; pass --from rocksdb");
        return Err(Failure::Source { message, is_damaged: false });
    }
    let source = Database::open(&import.source, Options { skip_damaged: import.skip_damaged })?;
    let (tables, logs) = source.files();
    let source_bytes = source.bytes();
    let progress = Progress::of_bytes(Some(source_bytes));
    let mut pairs = source.pairs().map_err(|error| explain(error.into(), 0))?;
    let db = common.open_or_create()?;
    let mut loader =
        Loader::new(&db, (import.within.open_or_create(&db)?, common.write_options()), BATCH_PAIRS, &progress);
    let mut long_keys = 0;
    let loading = load_pairs(&mut loader, &mut pairs, import.skip_long_keys.then_some(&mut long_keys), &progress);
    let finished = loader.finish();
    progress.finish();
    let loaded = loader.loaded();
    let too_long = loading.map_err(|failure| explain(failure, loaded.keys))?;
    finished?;
    if let Some(key) = too_long {
        return Err(long_key_error(&key, loaded.keys));
    }
    let mut report = Report::new();
    loaded.add_to(&mut report);
    report.count("tables", "table files read", tables as u64).count("logs", "log files read", logs as u64).size(
        "source_bytes",
        "bytes in these files",
        source_bytes,
    );
    report_losses(&mut report, pairs.left_out());
    report.count("long_keys", "keys skipped as too long", long_keys);
    add_final_statistics(&mut report, &db, import.settle)?;
    db.close()?;
    report.print(common.json)
}

/// Loads all pairs. With `long_keys` it skips and counts keys that are too long; without, it stops at the first and
/// returns it.
fn load_pairs(
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

fn long_key_error(key: &[u8], keys: u64) -> Failure {
    let message = format!(
        "{}\n{keys} pairs before it are loaded; \
         run again with --skip-long-keys to skip such keys and continue in the same store",
        too_long_text(key)
    );
    Failure::Source { message, is_damaged: false }
}

/// Adds to the message how to continue past damage.
fn explain(failure: Failure, keys: u64) -> Failure {
    match failure {
        Failure::Source { message, is_damaged: true } => {
            let message = format!(
                "{message}\n{keys} pairs before it are loaded; \
                 run again with --skip-damaged to skip damaged data and continue in the same store"
            );
            Failure::Source { message, is_damaged: true }
        }
        other => other,
    }
}

/// Prints skipped data on standard error and adds its count to the report.
fn report_losses(report: &mut Report, left_out: &[LeftOut]) {
    for loss in left_out.iter().take(LISTED_MAX) {
        match loss.bytes {
            Some(bytes) => eprintln!("alluvium: skipped {bytes} bytes: {}", loss.why),
            None => eprintln!("alluvium: skipped: {}", loss.why),
        }
    }
    if left_out.len() > LISTED_MAX {
        eprintln!("alluvium: and {} more", left_out.len() - LISTED_MAX);
    }
    report.count("left_out", "places skipped", left_out.len() as u64);
}
