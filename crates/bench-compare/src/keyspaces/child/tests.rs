//! Every engine with keyspaces that is built in goes through all stages.

use super::super::figures::FIGURES;
use super::*;
use crate::engines::keyspaces::select_with_keyspaces;
use std::collections::BTreeSet;
use std::path::Path;

fn job(engine: &str, directory: &Path, keyspaces: u32, pairs: u32) -> Job {
    Job {
        engine: engine.into(),
        directory: directory.join("store"),
        memory: Some(64 << 20),
        stage: Stage::Create,
        keyspaces,
        pairs,
        value_bytes: 100,
        idle: 0.0,
    }
}

fn all_stages(job: &Job) -> Round {
    Stage::ALL.into_iter().flat_map(|at| stage(&Job { stage: at, ..job.clone() }).unwrap()).collect()
}

#[test]
fn every_figure_of_the_table_is_measured() {
    for kind in select_with_keyspaces(&[]).unwrap().taken {
        for (prefix, pairs) in [("empty_", 0), ("filled_", 5)] {
            let folder = tempfile::tempdir().unwrap();
            let measured = all_stages(&job(kind.name, folder.path(), 7, pairs));
            let wanted = FIGURES.iter().filter_map(|figure| figure.name.strip_prefix(prefix));
            let missing: Vec<&str> = wanted.filter(|name| !measured.contains_key(*name)).collect();
            assert_eq!(missing, [""; 0], "{}", kind.name);
            for name in ["create_ns", "reopen_ns", "drop_ns", "reopen_half_ns", "closed_half_files"] {
                assert!(measured[name] > 0.0, "{}: {name}", kind.name);
            }
        }
    }
}

#[test]
fn a_missing_pair_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let first = job("alluvium", folder.path(), 3, 2);
    stage(&first).unwrap();
    let error = stage(&Job { stage: Stage::Reopen, pairs: 3, ..first.clone() }).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    // Nothing was dropped.
    let error = stage(&Job { stage: Stage::ReopenHalf, ..first }).unwrap_err();
    assert!(error.to_string().contains("3 keyspaces are left instead of 2"), "{error}");
    assert!(stage(&job("lmdb", folder.path(), 1, 1)).is_err());
}

#[test]
fn a_job_comes_back() {
    let job = job("alluvium", Path::new("x"), 3, 2);
    assert_eq!(serde_json::from_str::<Job>(&serde_json::to_string(&job).unwrap()).unwrap(), job);
    let names: BTreeSet<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    assert_eq!(names.len(), FIGURES.len());
}
