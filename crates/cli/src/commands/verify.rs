//! `verify`: checks what is on disk and lists all that is damaged. The store is not opened, so it works on one that does not
//! open.

use crate::arguments::{Common, Verify};
use crate::failure::Failure;
use crate::progress::CheckBar;
use crate::report::Report;
use alluvium::{Db, Depth, Error, Verification};
use serde_json::{Value, json};
use std::time::Instant;

/// Files of a kind that a note names.
const NAMED_MAX: usize = 10;

/// Checks and reports. Damage is told on standard error; with `--json` on standard output too.
pub fn run(common: &Common, verify: &Verify) -> Result<(), Failure> {
    let depth = if verify.quick { Depth::Quick } else { Depth::Deep };
    let (bar, started) = (CheckBar::new(), Instant::now());
    let found = Db::verify_closed(common.directory()?, depth, &mut |progress| bar.show(progress));
    bar.finish();
    let found = found?;
    for (files, what) in [
        (&found.unreferenced, "that the manifest does not name: the next opening for writing removes them"),
        (&found.other_stores, "that belong to another store: openings leave them, `alluvium repair` sets them aside"),
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
        eprintln!("alluvium: {}", told_by_check(&error.to_string()));
    }
    Err(Failure::Damaged { places: found.damage.len() as u64 + found.unlisted })
}

fn report(found: &Verification, depth: Depth, seconds: f64) -> Report {
    let checked = &found.checked;
    let text = if found.is_valid() { "sound" } else { "damaged" };
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

/// An error's text without its advice to run a check: this is one.
pub fn told_by_check(text: &str) -> String {
    text.replace("; see `alluvium verify`", "")
}

/// A damage as JSON.
pub fn damage(error: &Error) -> Value {
    match error {
        Error::Corruption { path, offset, what, expected, found } => json!({
            "path": path.display().to_string(), "offset": offset, "what": what, "expected": expected, "found": found,
        }),
        other => json!({ "what": told_by_check(&other.to_string()) }),
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
        let told = told_by_check(&error.to_string());
        assert!(told.ends_with("found 2") && told.contains("page checksum"), "{told}");
        assert_eq!(Failure::from(error).code(), 3);
        assert_eq!(damage(&Error::Closed).to_string(), r#"{"what":"the store is closed"}"#);
        assert_eq!(Failure::Damaged { places: 2 }.code(), 3);
    }
}
