//! Alluvium and its rivals in one run: interleaved, with the same work, the same memory and the same measuring.
//!
//! `compare` plans and goes through the turns; each turn is a child process (`launch`, `child`) that runs a session of
//! `alluvium-bench` on one engine (`engines`). `results` keeps the measurements, `summary` makes medians and ratios of them,
//! `table` and `page` show them.

mod arguments;
mod child;
mod compare;
mod engines;
mod figures;
mod job;
mod launch;
mod machine;
mod page;
mod plan;
mod record;
mod report;
mod results;
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
        Command::Report(report) => report::make(&report.results, report.commit.as_deref()).map(|()| 0),
        Command::Engines(library) => {
            engines::library::name(library.splinterdb_lib);
            engines::list();
            Ok(0)
        }
        Command::Figures(figures) => {
            engines::library::name(figures.library.splinterdb_lib.clone());
            figures::run(&figures).map(|()| 0)
        }
        Command::Child => child::run().map(|()| 0).map_err(|error| error.to_string()),
    };
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("bench-compare: {failed} turns failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("bench-compare: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures, then shows what is there.
fn compare(run: &Run, preset: &Preset) -> Result<usize, String> {
    engines::library::name(run.library.splinterdb_lib.clone());
    let failed = compare::run(run, preset)?;
    report::make(&run.results, Some(&machine::about::commit()))?;
    Ok(failed)
}
