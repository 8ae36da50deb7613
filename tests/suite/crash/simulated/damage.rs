//! A disk that damages data under a running store: bits flip in transit and at rest, reads and writes go to the wrong
//! place, writes are lost. Every answer is either right or an error that names the file; never a wrong answer, never a
//! panic.

use super::death::options;
use super::promise::{Contents, Promise};
use super::step::{KEYS, Step, name, read};
use super::world::{Grown, Shape, Tree, open, write};
use crate::support::{Random, setting};
use alluvium::Error;
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use std::panic::{AssertUnwindSafe, catch_unwind};

const RUN: &str = "fill 1; fill 2; batch 4; large 7; fill 3; flush; fill 1; delete 2; fill 5; large 8; work; fill 6; flush; put 2; \
                   fill 4; fill 9; compact; batch 1; fill 0; large 7; delete 8; flush; fill 3; work; compact; put 5";

/// The same for a tree of several levels.
const RUN_ON_A_TREE: &str = "fill 0; fill 5; fill 10; fill 15; fill 20; large 7; fill 25; fill 30; fill 35; fill 2; fill 7; fill 12; \
                             fill 17; fill 22; fill 27; fill 32; fill 37; work; work; compact; batch 4; clear 0; clear 16; fill 2; \
                             flush; work; work; fill 37; large 8; compact-range 5; work; compact; delete 8; put 5";

/// How often operations failed and succeeded.
#[derive(Debug, Default)]
struct Noticed {
    errors: u64,
    answers: u64,
    /// The errors in operations on a tree of more than one node.
    on_trees: u64,
}

/// Damage may cause an error that names the file, and a store that found damage may refuse writes. Any other error
/// fails the test.
fn judge<T>(done: alluvium::Result<T>, noticed: &mut Noticed) -> Result<Option<T>, String> {
    match done {
        Ok(answer) => {
            noticed.answers += 1;
            Ok(Some(answer))
        }
        Err(error) => {
            noticed.errors += 1;
            let named = match &error {
                Error::Corruption { path, expected, found, .. } => {
                    path.starts_with("/simulated") && path.file_name().is_some() && expected != found
                }
                Error::ReadOnly { reason } => reason.contains("/simulated/"),
                Error::Io { .. } | Error::NewerFormat { .. } => true,
                _ => false,
            };
            if named { Ok(None) } else { Err(format!("an error that names no file: {error}")) }
        }
    }
}

fn check_reads(db: &DeterministicDb, wanted: &Contents, noticed: &mut Noticed) -> Result<(), String> {
    for key in (0..KEYS).map(name) {
        if let Some(found) = judge(db.get(&key), noticed)?
            && found.as_ref() != wanted.get(&key)
        {
            return Err(format!("get of {key} gives a wrong answer"));
        }
    }
    let keys: Vec<String> = (0..KEYS).map(name).collect();
    if let Some(found) = judge(db.multi_get(&keys), noticed)?
        && keys.iter().zip(found).any(|(key, value)| value.as_ref() != wanted.get(key))
    {
        return Err("multi_get gives a wrong answer".into());
    }
    let pairs: alluvium::Result<Vec<_>> = db.iter().and_then(Iterator::collect);
    if let Some(pairs) = judge(pairs, noticed)? {
        let pairs: Contents =
            pairs.into_iter().map(|(key, value)| (String::from_utf8_lossy(&key).into_owned(), value)).collect();
        if pairs != *wanted {
            return Err("the iterator gives a wrong answer".into());
        }
    }
    Ok(())
}

/// Executes the run on a disk with this fault, which starts after the opening. Then reopens the store, if possible.
fn run(fault: &str, tree: Tree, seed: u64, noticed: &mut Noticed) -> Result<(), String> {
    let disk = SimulatedStorage::new(seed);
    let Ok(db) = open(&disk, options(), tree) else { return Err("cannot open without faults".into()) };
    disk.inject(fault);
    let mut promise = Promise::default();
    let steps = if tree == Tree::Usual { RUN } else { RUN_ON_A_TREE };
    for (at, step) in read(steps).into_iter().enumerate() {
        let (errors, is_tree) = (noticed.errors, Grown::of(&db).height > 0);
        let here = |error: String| format!("at operation {}, {step}: {error}", at + 1);
        if let Some(changes) = step.changes(at) {
            promise.begin(changes.clone());
            match judge(write(&db, &changes, step), noticed).map_err(here)? {
                Some(()) => promise.acknowledge(),
                None => promise.take_back(),
            }
        } else {
            let done = match step {
                Step::Flush => db.flush(),
                Step::Compact => db.compact(),
                Step::CompactRange(key) => db.compact_range(Step::range_from(key)),
                _ => {
                    db.step();
                    Ok(())
                }
            };
            judge(done, noticed).map_err(here)?;
        }
        check_reads(&db, &promise.contents(), noticed).map_err(here)?;
        noticed.on_trees += if is_tree { noticed.errors - errors } else { 0 };
    }
    let verified = db.verify();
    judge(verified, noticed).map_err(|error| format!("verify: {error}"))?;
    let disk = disk.kill();
    drop(db);
    if let Some(db) = judge(open(&disk, options(), tree), noticed)? {
        check_reads(&db, &promise.contents(), noticed).map_err(|error| format!("reopened: {error}"))?;
    }
    Ok(())
}

#[test]
fn damage_under_a_running_store_is_reported_or_harmless() {
    let noticed = damage_every_file(Tree::Usual);
    assert!(noticed.errors > 100 && noticed.answers > 1000, "the damage went unnoticed: {noticed:?}");
}

#[test]
fn damage_under_a_tree_of_several_levels_is_reported_or_harmless() {
    let noticed = damage_every_file(Tree::Small { fanout: 2 });
    assert!(noticed.on_trees > 100 && noticed.answers > 1000, "the damage went unnoticed: {noticed:?}");
}

#[test]
fn damage_under_levels_is_reported_or_harmless() {
    for shape in Shape::ALL {
        let noticed = damage_every_file(Tree::Levels(shape));
        assert!(noticed.on_trees > 100 && noticed.answers > 1000, "the damage went unnoticed: {noticed:?}");
    }
}

fn damage_every_file(tree: Tree) -> Noticed {
    let seeds = setting("ALLUVIUM_DAMAGE_SEEDS", 4);
    let (mut noticed, mut failures) = (Noticed::default(), Vec::new());
    for file in ["branch", "value"] {
        for effect in ["flip", "misdirect", "stale", "rot"] {
            for operation in ["read", "write"] {
                let mut by_this = Noticed::default();
                for seed in 1..=seeds {
                    let nth = 1 + Random(seed).below(12);
                    for how in ["p=0.1".to_owned(), format!("nth={nth}"), format!("nth={nth}..")] {
                        let fault = format!("({operation} name~.{file} {how}) -> {effect}");
                        let done = catch_unwind(AssertUnwindSafe(|| run(&fault, tree, seed, &mut by_this)));
                        match done {
                            Ok(Ok(())) => {}
                            Ok(Err(error)) => failures.push(format!("{fault}, seed {seed}: {error}")),
                            Err(_) => failures.push(format!("{fault}, seed {seed}: a panic, see above")),
                        }
                    }
                }
                println!("{operation} .{file} -> {effect}: {by_this:?}");
                noticed.errors += by_this.errors;
                noticed.answers += by_this.answers;
                noticed.on_trees += by_this.on_trees;
            }
        }
    }
    println!("{noticed:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    noticed
}
