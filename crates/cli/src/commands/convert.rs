//! `convert`: rewrites a closed store from one disk component to another, with a progress bar.

use crate::arguments::{Common, Convert};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::CheckBar;
use crate::report::{Report, align_right, grouped, size, table};
use alluvium::{ConvertReport, Db};
use std::time::Instant;

/// Converts the store and prints a report.
pub fn run(common: &Common, arguments: &Convert) -> Result<(), Failure> {
    if common.component.is_some() {
        let text =
            "--component says what a store is opened with; for the component after the conversion use --to alone";
        return Err(Failure::Usage(text.into()));
    }
    let (bar, started) = (CheckBar::new(), Instant::now());
    let options = common.options_for(arguments.to).compression(arguments.compression.for_store());
    let converted = Db::convert(common.directory()?, &options, &mut |progress| bar.show(progress));
    bar.finish();
    print(&converted?, started.elapsed().as_secs_f64(), common.json)
}

fn print(done: &ConvertReport, seconds: f64, as_json: bool) -> Result<(), Failure> {
    let mut report = Report::new();
    report
        .member("changed", done.changed.into())
        .member("component_before", done.component_before.into())
        .member("component", done.component.into())
        .member("files_before", done.files_before.into())
        .member("files", done.files.into())
        .member("bytes_before", done.bytes_before.into())
        .member("bytes", done.bytes.into())
        .member("entries_before", done.entries_before.into())
        .member("entries", done.entries.into())
        .decimal("seconds", "seconds", seconds);
    if as_json {
        return report.print(true);
    }
    if !done.changed {
        let kind = done.component;
        let text = format!("the store is {kind} already, nothing was done; its files are compressed as they were");
        return Report::new().text("result", text).print(false);
    }
    let mut columns = table(&["", "before", "now"]);
    let counts = |one: u64, other: u64| [grouped(one), grouped(other)];
    let rows = [
        ("component", [done.component_before.to_string(), done.component.to_string()]),
        ("branch files", counts(done.files_before, done.files)),
        ("bytes in branch files", [size(done.bytes_before), size(done.bytes)]),
        ("entries", counts(done.entries_before, done.entries)),
        ("seconds", [String::new(), format!("{seconds:.2}")]),
    ];
    for (label, [before, now]) in rows {
        columns.add_row([label.to_string(), before, now]);
    }
    align_right(&mut columns, 1);
    let mut output = Output::new();
    output.line(columns)?;
    output.finish()
}
