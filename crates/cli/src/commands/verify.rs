//! `verify`: reads and checks everything on disk.

use crate::arguments::Common;
use crate::failure::Failure;
use crate::output::Output;
use crate::report::Report;
use alluvium::Error;
use serde_json::{Value, json};
use std::time::Instant;

/// Checks and reports. Damage is told on standard error; with `--json` on standard output too.
pub fn run(common: &Common) -> Result<(), Failure> {
    match check(common) {
        Ok(report) => report.print(common.json),
        Err(Failure::Store(error)) if common.json => {
            if let Some(damage) = damage(&error) {
                let mut output = Output::new();
                output.line(damage)?;
                output.finish()?;
            }
            Err(error.into())
        }
        Err(failure) => Err(failure),
    }
}

fn check(common: &Common) -> Result<Report, Failure> {
    let db = common.open_existing()?;
    let started = Instant::now();
    let verified = db.verify()?;
    let seconds = started.elapsed().as_secs_f64();
    db.close()?;
    let mut report = Report::new();
    report
        .add("sound", "result", true.into(), "sound".to_string())
        .count("branch_files", "branch files", verified.branch_files)
        .count("pages", "pages", verified.pages)
        .count("entries", "entries", verified.entries)
        .count("value_files", "value files", verified.value_files)
        .size("bytes", "bytes read", verified.bytes)
        .decimal("seconds", "seconds", seconds);
    Ok(report)
}

/// Damage as JSON; `None` where the error is of another kind.
fn damage(error: &Error) -> Option<Value> {
    let Error::Corruption { path, offset, what, expected, found } = error else { return None };
    let path = path.display().to_string();
    Some(json!({
        "sound": false,
        "damage": { "path": path, "offset": offset, "what": what, "expected": expected, "found": found },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn damage_names_its_place() {
        let error = Error::corruption(Path::new("/s/000001.branch"), 4096, "page checksum", 1, 2);
        assert_eq!(
            damage(&error).unwrap().to_string(),
            r#"{"damage":{"expected":"1","found":"2","offset":4096,"path":"/s/000001.branch","what":"page checksum"},"sound":false}"#
        );
        assert_eq!(Failure::from(error).code(), 3);
        assert!(damage(&Error::Closed).is_none());
    }
}
