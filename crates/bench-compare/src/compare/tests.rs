//! Only missing measurements are made.

use super::*;
use crate::plan::Step;

fn a_plan() -> Plan {
    Plan {
        engines: vec![engines::find("alluvium").unwrap()],
        turns: Vec::new(),
        settings: Settings {
            num: Some(100),
            engine: EngineOptions { memory: Some(256 << 20), ..EngineOptions::default() },
            ..Settings::default()
        },
        limit: "none".into(),
        memory: 256 << 20,
        commit: "c".into(),
        stores: "stores".into(),
        disturbed: 10.0,
        attempts: 2,
    }
}

fn a_turn(workloads: &[&str]) -> Turn {
    let chain = workloads.iter().map(|name| Step { workload: (*name).into(), ops: None }).collect();
    Turn { engine: 0, chain, threads: 1, repeat: 1 }
}

fn measured(plan: &Plan, turn: &Turn, step: usize) -> Record {
    let mut measured = Measured::default();
    let outcome = &mut measured.outcome;
    (outcome.engine, outcome.threads, outcome.memory_mb) = ("alluvium".into(), 1, Some(256.0));
    (outcome.key_size, outcome.value_size, outcome.seek_nexts) = (8, 100, 50);
    record(plan, turn, plan::path(&turn.chain, step), measured)
}

#[test]
fn a_chain_is_run_up_to_its_last_missing_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut results = Results::open(folder.path(), "r", Machine::default()).unwrap();
    let (plan, turn) = (a_plan(), a_turn(&["fillseq", "readseq", "a"]));
    assert_eq!(missing(&plan, &turn, &results).len(), 3);
    results.add(measured(&plan, &turn, 2)).unwrap();
    assert_eq!(missing(&plan, &turn, &results).len(), 2);
    results.add(measured(&plan, &turn, 0)).unwrap();
    assert_eq!(missing(&plan, &turn, &results).len(), 2, "the load is needed for what comes behind it");
    results.add(measured(&plan, &turn, 1)).unwrap();
    assert_eq!(missing(&plan, &turn, &results).len(), 0);
    let again = Turn { repeat: 2, ..turn.clone() };
    assert_eq!(missing(&plan, &again, &results).len(), 3, "another repetition");
    let more = Plan { settings: Settings { num: Some(200), ..plan.settings.clone() }, ..plan };
    assert_eq!(missing(&more, &turn, &results).len(), 3, "more keys");
}

#[test]
fn a_record_is_what_was_planned() {
    let (plan, turn) = (a_plan(), a_turn(&["fillseq"]));
    assert_eq!(measured(&plan, &turn, 0).identity(), identity(&plan, &turn, "fillseq".into()));
}

#[test]
fn presets_name_workloads_that_there_are() {
    for preset in [QUICK, FULL] {
        let names: Vec<String> = preset.workloads.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(plan::chains(&names, preset.num).unwrap().len(), 2, "{}", preset.name);
    }
}

#[test]
fn of_disturbed_measurements_the_least_disturbed_is_kept_until_a_calm_one_comes() {
    let folder = tempfile::tempdir().unwrap();
    let mut results = Results::open(folder.path(), "r", Machine::default()).unwrap();
    let (plan, turn, mut best) = (a_plan(), a_turn(&["fillseq"]), BTreeMap::new());
    let with_load = |other_load_percent| Record { other_load_percent, ..measured(&plan, &turn, 0) };
    let mut kept = Kept { results: &mut results, best: &mut best };
    for load in [60.0, 30.0, 45.0] {
        kept.keep(with_load(load), 10.0).unwrap();
    }
    assert_eq!(kept.best["fillseq"].other_load_percent, 30.0);
    assert_eq!(missing(&plan, &turn, kept.results).len(), 1);
    kept.keep(with_load(5.0), 10.0).unwrap();
    assert!(kept.best.is_empty());
    assert_eq!(missing(&plan, &turn, kept.results).len(), 0);
}
