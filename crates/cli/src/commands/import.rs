//! `import`: the data of another store's directory, with a progress bar and a report.
//!
//! The other store is opened first, so a wrong directory leaves no empty store behind; it is only read.

use super::loader::{Loader, tell_end};
use crate::arguments::{Common, Import, ImportFrom};
use crate::failure::Failure;
use crate::input::Pair;
use crate::progress::Progress;
use crate::report::Report;
use alluvium_leveldb_files::{Database, LeftOut, Options, Pairs};

/// Pairs that are written together.
const BATCH_PAIRS: u64 = 1000;
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
    let taken = take(&mut loader, &mut pairs, &progress);
    let finished = loader.finish();
    progress.finish();
    let loaded = loader.loaded();
    taken.map_err(|failure| explain(failure, loaded.keys)).and(finished)?;
    let mut report = Report::new();
    loaded.tell(&mut report);
    report.count("tables", "table files read", tables as u64).count("logs", "log files read", logs as u64).size(
        "source_bytes",
        "their bytes",
        source_bytes,
    );
    tell_losses(&mut report, pairs.left_out());
    tell_end(&mut report, &db, import.settle)?;
    db.close()?;
    report.print(common.json)
}

fn take(loader: &mut Loader<'_>, pairs: &mut Pairs, progress: &Progress) -> Result<(), Failure> {
    let mut since = 0;
    while let Some(pair) = pairs.next() {
        let (key, value) = pair?;
        loader.add(Pair { key, value })?;
        since += 1;
        if since == BATCH_PAIRS {
            since = 0;
            progress.reach(pairs.bytes_read());
        }
    }
    Ok(())
}

/// Adds what a user has to know to go on behind damage.
fn explain(failure: Failure, keys: u64) -> Failure {
    match failure {
        Failure::Source { message, is_damaged: true } => {
            let message =
                format!("{message}\n{keys} pairs before it are loaded; --skip-damaged goes on without what is damaged");
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
