//! Runs the programs of `examples/`, which check themselves.

use tempfile::tempdir;

#[allow(dead_code)]
#[path = "../../../examples/bulk_load.rs"]
mod bulk_load;
#[allow(dead_code)]
#[path = "../../../examples/counters.rs"]
mod counters;
#[allow(dead_code)]
#[path = "../../../examples/secondary_index.rs"]
mod secondary_index;
#[allow(dead_code)]
#[path = "../../../examples/snapshot_scan.rs"]
mod snapshot_scan;
#[allow(dead_code)]
#[path = "../../../examples/time_series.rs"]
mod time_series;

#[test]
fn bulk_load_runs() {
    bulk_load::run(tempdir().unwrap().path(), 100_000).unwrap();
}

#[test]
fn counters_runs_twice_on_one_store() {
    let directory = tempdir().unwrap();
    counters::run(directory.path()).unwrap();
    counters::run(directory.path()).unwrap();
}

#[test]
fn secondary_index_runs() {
    secondary_index::run(tempdir().unwrap().path()).unwrap();
}

#[test]
fn snapshot_scan_runs() {
    snapshot_scan::run(tempdir().unwrap().path()).unwrap();
}

#[test]
fn time_series_runs() {
    time_series::run(tempdir().unwrap().path()).unwrap();
}
