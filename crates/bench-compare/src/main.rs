//! Alluvium and other stores in one run: interleaved, with the same work, the same memory and the same measurement.
//!
//! `compare` plans and runs the turns; each turn is a child process (`launch`, `child`) that runs a session of
//! `alluvium-bench` on one engine (`engines`). `figures` draws papers' figures with the same children. `results`
//! stores the measurements, `summary` computes medians and ratios, `table` and `page` show them. `small` measures what
//! small stores cost, `keyspaces` what many keyspaces cost in one store, `range_delete` the delete of a range,
//! `ingest` sorted pairs that enter at once, `large_values` values that have files of their own, `copies` checkpoints and
//! backups, `expiry` pairs that expire, and `postmark` and `metadata` small
//! and empty files in file systems (`file_systems`), all in rounds of children of their own (`rounds`).

mod arguments;
mod child;
mod children;
mod compare;
mod copies;
mod engines;
mod expiry;
mod figures;
mod file_systems;
mod ingest;
mod job;
mod keyspaces;
mod large_values;
mod launch;
mod machine;
mod metadata;
mod page;
mod plan;
mod postmark;
mod range_delete;
mod record;
mod report;
mod results;
mod rounds;
mod small;
mod summary;
mod table;
mod text;

use arguments::{Arguments, Command, Run};
use clap::Parser;
use compare::Preset;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Quick(run) => compare(&run, &compare::QUICK),
        Command::Full(run) => compare(&run, &compare::FULL),
        Command::DefaultOptions(run) => compare(&run, &compare::DEFAULT_OPTIONS),
        Command::Small(arguments) => small::run(&arguments),
        Command::Report(report) => report::make(&report.results, report.commit.as_deref()).map(|()| None),
        Command::Engines(library) => {
            engines::library::name(library.splinterdb_lib);
            engines::list();
            Ok(None)
        }
        Command::Figures(figures) => {
            engines::library::name(figures.library.splinterdb_lib.clone());
            figures::run(&figures)
        }
        Command::Keyspaces(arguments) => keyspaces::run(&arguments),
        Command::KeyspacesChild => keyspaces::child::run().map(|()| None).map_err(|error| error.to_string()),
        Command::RangeDelete(arguments) => range_delete::run(&arguments),
        Command::RangeDeleteChild => range_delete::child::run().map(|()| None).map_err(|error| error.to_string()),
        Command::Ingest(arguments) => ingest::run(&arguments),
        Command::IngestChild => ingest::child::run().map(|()| None).map_err(|error| error.to_string()),
        Command::LargeValues(arguments) => large_values::run(&arguments),
        Command::LargeValuesChild => large_values::child::run().map(|()| None).map_err(|error| error.to_string()),
        Command::Copies(arguments) => copies::run(&arguments),
        Command::CopiesChild => copies::child::run().map(|()| None).map_err(|error| error.to_string()),
        Command::Expiry(arguments) => expiry::run(&arguments),
        Command::ExpiryChild => expiry::child::run().map(|()| None).map_err(|error| error.to_string()),
        Command::Postmark(arguments) => postmark::run(&arguments),
        Command::PostmarkChild => postmark::child::run().map(|()| None).map_err(|error| error.to_string()),
        Command::Metadata(arguments) => metadata::run(&arguments),
        Command::MetadataChild => metadata::child::run().map(|()| None).map_err(|error| error.to_string()),
        Command::SmallChild => small::child::run().map(|()| None).map_err(|error| error.to_string()),
        Command::Child => child::run().map(|()| None).map_err(|error| error.to_string()),
    };
    match result {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(fault)) => {
            eprintln!("bench-compare: {fault}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bench-compare: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures, then shows the results; reports what failed.
fn compare(run: &Run, preset: &Preset) -> Result<Option<String>, String> {
    engines::library::name(run.library.splinterdb_lib.clone());
    let failed = compare::run(run, preset)?;
    report::make(&run.results, Some(&machine::about::commit()))?;
    Ok((failed > 0).then(|| format!("{failed} turns failed")))
}
