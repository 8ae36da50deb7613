//! `bench`: runs workloads on a new store and prints their results.

use crate::arguments::{Common, Component};
use crate::bench_arguments::{Bench, BenchCommand, Filters};
use crate::bench_progress::BenchProgress;
use crate::commands::figures;
use crate::failure::Failure;
use crate::output::Output;
use crate::report::{align_right, grouped, table};
use alluvium_bench::{
    Alluvium, Control, EngineOptions, Factory, Outcome, Progress, Session, Settings, SingleLevel, Workload, catalogue,
};
use comfy_table::Table;
use std::path::PathBuf;
use tempfile::TempDir;

/// Runs workloads, or draws figures.
pub fn run(common: &Common, bench: &Bench) -> Result<(), Failure> {
    if let Some(BenchCommand::Figures(figures)) = &bench.figures {
        return figures::run(common, figures);
    }
    let settings = settings(common, bench);
    settings.validate().map_err(Failure::Usage)?;
    let names = bench.names.as_deref().unwrap_or_default();
    let workloads = catalogue::list(names, &settings).map_err(|error| Failure::Usage(error.to_string()))?;
    let store_path = StorePath::new(common, bench)?;
    let engine: &dyn Factory = if bench.single_level { &SingleLevel } else { &Alluvium };
    let session = Session::new(engine, store_path.path.clone(), settings)?;
    let outcomes = run_all(session, &workloads, common.json);
    let removed = store_path.remove();
    outcomes.and(removed)
}

fn settings(common: &Common, bench: &Bench) -> Settings {
    // Sizes that do not fit in `usize` fail the same check as sizes that are too large.
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Settings {
        num: bench.num,
        ops: bench.ops,
        duration: bench.duration,
        threads: bench.threads,
        key_size: size(bench.key_size),
        key_prefix: size(bench.key_prefix),
        value_size: size(bench.value_size),
        batch_size: bench.batch_size,
        seek_nexts: bench.seek_nexts,
        sequential_percent: bench.sequential_percent,
        distribution: bench.distribution.map(|distribution| distribution.choice()),
        seed: bench.seed,
        check: bench.check,
        settle: !bench.no_settle,
        use_existing: bench.use_existing,
        order: bench.existing_order(),
        control: if bench.spin_control { Control::Spinning } else { Control::Sleeping },
        engine: EngineOptions {
            memory: common.memory,
            write_buffer: bench.write_buffer,
            sync: common.sync,
            kept_changes: bench.keep_changes,
            plain_filters: bench.filters == Filters::Quotient,
            component: common.component.map(Component::for_bench),
            ..EngineOptions::default()
        },
        ..Settings::default()
    }
}

/// The store's location: the user's directory, which is kept, or a temporary one.
struct StorePath {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl StorePath {
    fn new(common: &Common, bench: &Bench) -> Result<Self, Failure> {
        if let Some(path) = &common.db {
            return Ok(Self { path: path.clone(), temporary: None });
        }
        if bench.use_existing {
            return Err(Failure::Usage("--use-existing needs --db DIR".to_string()));
        }
        let temporary = temporary()?;
        Ok(Self { path: temporary.path().join("store"), temporary: Some(temporary) })
    }

    fn remove(self) -> Result<(), Failure> {
        self.temporary.map_or(Ok(()), close)
    }
}

/// A temporary directory for benchmarks, removed on drop.
pub fn temporary() -> Result<TempDir, Failure> {
    TempDir::with_prefix("alluvium-bench-")
        .map_err(|error| Failure::Usage(format!("cannot create a temporary directory: {error}")))
}

/// Removes the directory now and reports an error if that fails.
pub fn close(temporary: TempDir) -> Result<(), Failure> {
    let path = temporary.path().to_path_buf();
    temporary.close().map_err(|error| Failure::Usage(format!("cannot remove {}: {error}", path.display())))
}

/// Runs all workloads. If one fails, the results of those before it are still printed.
fn run_all(mut session: Session<'_>, workloads: &[Workload], json: bool) -> Result<(), Failure> {
    let progress = BenchProgress::new();
    let mut output = Output::new();
    let mut table = summary();
    let mut failed = Ok(());
    for workload in workloads {
        let outcome = match session.run(workload, &progress) {
            Ok(outcome) => outcome,
            Err(error) => {
                progress.end();
                failed = Err(error.into());
                break;
            }
        };
        if outcome.found == 0 && outcome.not_found > 0 && workload.name != "readmissing" {
            let lookups = grouped(outcome.not_found);
            eprintln!(
                "{}: none of {lookups} keys was found; do --num, --key-size and --order match the fill?",
                workload.name
            );
        }
        if json {
            let line = serde_json::to_string(&outcome).map_err(|error| Failure::Output(error.into()))?;
            output.line(line)?;
            output.flush()?;
        } else {
            table.add_row(row(&outcome));
        }
    }
    if !json && table.row_count() > 0 {
        align_right(&mut table, 1);
        output.line(table)?;
    }
    output.finish()?;
    failed
}

fn summary() -> Table {
    table(&[
        "workload",
        "ops",
        "ops/s",
        "CPU us/op",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "max ms",
        "write amp",
        "log amp",
        "space amp",
        "files mean",
        "files peak",
        "read amp",
        "peak MiB",
        "settle s",
    ])
}

fn row(outcome: &Outcome) -> [String; 16] {
    let two = |number: f64| format!("{number:.2}");
    let known = |number: Option<f64>| number.map_or_else(|| "-".to_string(), two);
    [
        outcome.workload.clone(),
        grouped(outcome.ops),
        grouped(outcome.ops_per_s as u64),
        two(outcome.cpu_us_per_op),
        two(outcome.p50_us),
        two(outcome.p99_us),
        two(outcome.p999_us),
        two(outcome.max_ms),
        known(outcome.write_amp),
        known(outcome.log_amp),
        two(outcome.space_amp),
        known(outcome.files_mean),
        known(outcome.files_peak),
        known(outcome.read_amp),
        grouped(outcome.peak_rss_mb as u64),
        two(outcome.settle_s),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let outcome = Outcome { workload: "fillseq".into(), write_amp: Some(1.25), ops: 12_345, ..Outcome::default() };
        let mut table = summary();
        assert_eq!(table.header().map(|header| header.cell_count()), Some(row(&outcome).len()));
        table.add_row(row(&outcome));
        let text = table.to_string();
        assert!(text.contains("12,345") && text.contains("1.25") && text.contains('-'), "{text}");
    }
}
