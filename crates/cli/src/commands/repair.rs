//! `repair`: rebuilds a store from the files that are left, and reports what was saved and what was lost.

use crate::arguments::Common;
use crate::bytes;
use crate::commands::verify::without_check_hint;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::CheckBar;
use crate::report::{Report, table};
use alluvium::{Db, Loss, LostKeys, RepairReport};
use serde_json::{Value, json};
use std::time::Instant;

/// The greatest sequence number. A loss that ends here has no known end.
const NUMBER_MAX: u64 = (1 << 56) - 1;

/// Repairs the store and prints a report. The exit code is 3 if something was lost.
pub fn run(common: &Common) -> Result<(), Failure> {
    let directory = common.directory()?;
    let (bar, started) = (CheckBar::new(), Instant::now());
    let repaired = Db::repair(directory, &mut |progress| bar.show(progress));
    bar.finish();
    let repaired = repaired?;
    report(&repaired, started.elapsed().as_secs_f64()).print(common.json)?;
    if !common.json {
        print_losses(&repaired, common.hex)?;
    }
    for warning in &repaired.warnings {
        eprintln!("alluvium: note: {}", without_check_hint(warning));
    }
    if !repaired.set_aside.is_empty() {
        let directory = directory.display();
        eprintln!(
            "alluvium: note: damaged files were kept; when you no longer need them, run: rm '{directory}'/*.damaged"
        );
    }
    if repaired.is_complete() {
        return Ok(());
    }
    Err(Failure::Lost { losses: repaired.losses.len() as u64 + repaired.unlisted })
}

fn report(repaired: &RepairReport, seconds: f64) -> Report {
    let result = match (repaired.changed, repaired.is_complete()) {
        (false, _) => "no damage found",
        (true, true) => "repaired, nothing was lost",
        (true, false) => "repaired, with losses",
    };
    let manifest = repaired.manifest_lost.as_deref().map_or_else(|| "kept".to_string(), without_check_hint);
    let log = if repaired.log_kept { "kept" } else { "moved to branch files" };
    let mut report = Report::new();
    report
        .add("changed", "result", repaired.changed.into(), result.to_string())
        .add("manifest_lost", "manifest", json!(repaired.manifest_lost), manifest)
        .count("branches_kept", "branch files kept", repaired.branches_kept)
        .count("branches_rewritten", "branch files rewritten", repaired.branches_rewritten)
        .count("branches_lost", "branch files lost", repaired.branches_lost)
        .count("entries_saved", "entries rewritten", repaired.entries_saved)
        .count("entries_lost", "entries lost", repaired.entries_lost)
        .add("log_kept", "log", repaired.log_kept.into(), log.to_string())
        .count("log_records_saved", "log records saved", repaired.log_records_saved)
        .count("log_records_cut", "log records discarded", repaired.log_records_cut)
        .count("values_lost", "large values lost", repaired.values_lost)
        .member("losses", repaired.losses.iter().map(loss).collect())
        .member("unlisted", repaired.unlisted.into())
        .add("set_aside", "files set aside", json!(repaired.set_aside), repaired.set_aside.join("\n"))
        .member("warnings", json!(repaired.warnings))
        .decimal("seconds", "seconds", seconds);
    report
}

fn print_losses(repaired: &RepairReport, hex: bool) -> Result<(), Failure> {
    if repaired.losses.is_empty() {
        return Ok(());
    }
    let mut table = table(&["file", "bytes", "keys", "numbers", "what is wrong"]);
    for loss in &repaired.losses {
        let range = |from: u64, to: u64| match to {
            _ if from == to => from.to_string(),
            NUMBER_MAX.. => format!("{from} and later"),
            _ => format!("{from} to {to}"),
        };
        table.add_row([
            loss.file.clone(),
            loss.bytes.as_ref().map_or_else(String::new, |bytes| range(bytes.start, bytes.end)),
            keys(loss, hex),
            loss.numbers.as_ref().map_or_else(String::new, |numbers| range(*numbers.start(), *numbers.end())),
            without_check_hint(&loss.what),
        ]);
    }
    let mut output = Output::new();
    output.line(table)?;
    if repaired.unlisted > 0 {
        output.line(format!("and {} more", repaired.unlisted))?;
    }
    output.finish()
}

/// The keys of a loss, as text for people.
fn keys(loss: &Loss, hex: bool) -> String {
    let text = |key: &[u8]| {
        let mut out = Vec::new();
        if hex {
            bytes::hex_into(key, &mut out)
        } else {
            bytes::escape_into(key, &mut out)
        }
        String::from_utf8_lossy(&out).into_owned()
    };
    match &loss.keys {
        Some(LostKeys::One(key)) => text(key),
        Some(LostKeys::Between { after, before }) => {
            let bound = |key: &Option<Vec<u8>>, none: &str| key.as_deref().map_or_else(|| none.to_string(), text);
            format!("{} .. {}", bound(after, "first"), bound(before, "last"))
        }
        _ => String::new(),
    }
}

/// A loss as JSON, with keys in hexadecimal.
fn loss(loss: &Loss) -> Value {
    let (mut key, mut after, mut before) = (None, None, None);
    match &loss.keys {
        Some(LostKeys::One(one)) => key = Some(bytes::hex(one)),
        Some(LostKeys::Between { after: from, before: to }) => {
            (after, before) = (from.as_deref().map(bytes::hex), to.as_deref().map(bytes::hex));
        }
        _ => {}
    }
    json!({
        "file": loss.file,
        "bytes": loss.bytes.as_ref().map(|bytes| [bytes.start, bytes.end]),
        "key_hex": key, "after_hex": after, "before_hex": before,
        "numbers": loss.numbers.as_ref().map(|numbers| [*numbers.start(), *numbers.end()]),
        "what": loss.what,
    })
}
