//! The structure of small trees and the jobs that made it, as text in `goldens/`. With `ALLUVIUM_REWRITE_GOLDENS` set
//! the files are written instead of compared. They change with the sizes of branch files.

use super::rig::{AnyWrite, Random, Rig, Write, key, number_key, small_options};
use crate::merge::Cursor;
use crate::util::SequenceNumber;

/// `count` writes of keys that start with `prefix`, in order.
pub fn writes(prefix: &str, count: usize) -> Vec<Write> {
    (0..count).map(|at| (key(&format!("{prefix}{at:05}")), Some(vec![1; 100]))).collect()
}

fn report<S: Into<AnyWrite>>(rig: &mut Rig, steps: Vec<Vec<S>>) -> String {
    let mut text = String::new();
    for step in steps {
        let outcome = rig.incorporation_of(step.into_iter().map(S::into).collect());
        rig.apply(outcome);
        text += "incorporate\n";
        for job in rig.work() {
            text += &format!("{job}\n");
        }
    }
    text + &rig.tree.describe()
}

pub fn compare(name: &str, text: &str) {
    let path = format!("{}/src/disk/trunk/tests/goldens/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("ALLUVIUM_REWRITE_GOLDENS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(golden == text, "{path} differs:\n{text}");
}

#[test]
fn an_empty_tree() {
    let rig = Rig::new(small_options(64 << 10));
    assert_eq!(rig.tree.describe(), "node 1 [start, end)\n");
    assert!(rig.trunk.pick(&rig.tree, &rig.retention()).is_none());
}

#[test]
fn a_sequential_load() {
    let mut rig = Rig::new(small_options(64 << 10));
    let text = report(&mut rig, (0..6).map(|at| writes(&format!("{at}-"), 600)).collect());
    compare("sequential", &text);
}

#[test]
fn a_random_load() {
    let mut rig = Rig::new(small_options(64 << 10));
    let mut random = Random(31);
    let mut step = || (0..600).map(|_| (key(&format!("{:04x}", random.next() as u16)), Some(vec![1; 100]))).collect();
    let steps = (0..7).map(|_| step()).collect();
    let text = report(&mut rig, steps);
    compare("random", &text);
}

/// Which leaves are sampled for garbage, and when, while others grow.
#[test]
fn a_load_of_overwrites() {
    let mut rig = Rig::new(small_options(64 << 10));
    let mut random = Random(32);
    // A third of all keys gets most of the writes. Now and then a range is deleted.
    let mut writes_of = |step: u64, at: u64| {
        let key = random.next() % if at.is_multiple_of(4) { 3000 } else { 1000 };
        match (at, random.below(10)) {
            (300, _) => AnyWrite::RangeDelete(number_key(step * 200), number_key(step * 200 + 150)),
            (_, 0) => AnyWrite::Delete(number_key(key)),
            _ => AnyWrite::Put(number_key(key), vec![step as u8; 100]),
        }
    };
    let steps = (0..14).map(|step| (0..600).map(|at| writes_of(step, at)).collect()).collect();
    let text = report(&mut rig, steps);
    compare("overwrites", &text);
}

/// What is merged for scans of a part of the keys, and that nothing else is.
#[test]
fn a_load_of_scans() {
    let mut rig = Rig::new(small_options(64 << 10));
    let mut random = Random(33);
    let mut step = || (0..600).map(|_| (number_key(random.next() % 4000), Some(vec![1; 100]))).collect();
    let steps: Vec<Vec<Write>> = (0..7).map(|_| step()).collect();
    let mut text = report(&mut rig, steps);
    for range in [0..1000, 2500..3500] {
        rig.incorporate((0..20).map(|at| (number_key(at * 200), Some(vec![2; 100]))).collect());
        let mut cursor = rig.tree.cursor();
        for at in 0..3000 {
            let key = range.start + at * 7919 % (range.end - range.start);
            cursor.seek(&number_key(key), SequenceNumber::MAX).unwrap();
        }
        drop(cursor);
        text += &format!("scans of {range:?}\n");
        while let Some(job) = rig.trunk.pick_for_scans(&rig.tree) {
            text += &format!("{job}\n");
            rig.finish(&job);
        }
    }
    compare("scans", &(text + &rig.tree.describe()));
}
