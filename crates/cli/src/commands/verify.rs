//! `verify`: checks the files on disk and lists all damage. The store is not opened, so this also works on a store that
//! cannot be opened.

use crate::arguments::{Common, Verify};
use crate::failure::Failure;
use crate::progress::CheckBar;
use crate::report::Report;
use alluvium::{Db, Depth, Error, Verification};
use serde_json::{Value, json};
use std::time::Instant;

/// The most files that a note names.
const NAMED_MAX: usize = 10;

/// Checks the store and prints a report. Damage is printed on standard error, with `--json` on standard output as well.
pub fn run(common: &Common, verify: &Verify) -> Result<(), Failure> {
    let depth = if verify.quick { Depth::Quick } else { Depth::Deep };
    let (bar, started) = (CheckBar::new(), Instant::now());
    let found = Db::verify_closed(common.directory()?, depth, &mut |progress| bar.show(progress));
    bar.finish();
    let found = found?;
    for (files, what) in [
        (&found.unreferenced, "not named by the manifest: the next open for writing removes them"),
        (&found.other_stores, "of another store: the store ignores them, `alluvium repair` sets them aside"),
    ] {
        if !files.is_empty() {
            let some = files.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if files.len() > NAMED_MAX { ", ..." } else { "" };
            eprintln!("alluvium: note: {} files ({some}{more}) {what}", files.len());
        }
    }
    let report = report(&found, depth, started.elapsed().as_secs_f64());
    if found.is_valid() {
        return report.print(common.json);
    }
    if common.json {
        report.print(true)?;
    }
    for error in &found.damage {
        eprintln!("alluvium: {}", without_check_hint(&error.to_string()));
    }
    Err(Failure::Damaged { places: found.damage.len() as u64 + found.unlisted })
}

fn report(found: &Verification, depth: Depth, seconds: f64) -> Report {
    let checked = &found.checked;
    let text = if found.is_valid() { "no damage found" } else { "damaged" };
    let mut report = Report::new();
    report
        .add("sound", "result", found.is_valid().into(), text.to_string())
        .member("quick", (depth == Depth::Quick).into())
        .count("branch_files", "branch files", checked.branch_files)
        .count("pages", "pages", checked.pages)
        .count("entries", "entries", checked.entries)
        .count("value_files", "value files", checked.value_files)
        .count("log_segments", "log segments", checked.log_segments)
        .count("log_records", "log records", checked.log_records)
        .size("bytes", "bytes read", checked.bytes)
        .decimal("seconds", "seconds", seconds)
        .member("damage", found.damage.iter().map(damage).collect())
        .member("unlisted", found.unlisted.into())
        .member("unnamed", json!(found.unreferenced))
        .member("foreign", json!(found.other_stores));
    report
}

/// Removes the hint to run a check from an error message: this is that check.
pub fn without_check_hint(text: &str) -> String {
    text.replace("; see `alluvium verify`", "").replace("; see `alluvium backup verify`", "")
}

/// A damaged place as JSON.
pub fn damage(error: &Error) -> Value {
    match error {
        Error::Corruption { path, offset, what, expected, found } => json!({
            "path": path.display().to_string(), "offset": offset, "what": what, "expected": expected, "found": found,
        }),
        other => json!({ "what": without_check_hint(&other.to_string()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn damage_names_its_place() {
        let error = Error::corruption(Path::new("/s/000001.branch"), 4096, "page checksum", 1, 2);
        assert_eq!(
            damage(&error).to_string(),
            r#"{"expected":"1","found":"2","offset":4096,"path":"/s/000001.branch","what":"page checksum"}"#
        );
        assert!(error.to_string().contains("see `alluvium verify`"));
        let message = without_check_hint(&error.to_string());
        assert!(message.ends_with("found 2") && message.contains("page checksum"), "{message}");
        assert_eq!(Failure::from(error).code(), 3);
        assert_eq!(damage(&Error::Closed).to_string(), r#"{"what":"the store is closed"}"#);
        assert_eq!(Failure::Damaged { places: 2 }.code(), 3);
    }
}
