//! The runs of small stores and the jobs that made them, as text in `goldens/`. With `ALLUVIUM_REWRITE_GOLDENS` set the
//! files are written instead of compared. They change with the sizes of branch files.

use super::rig::{AnyWrite, Random, Rig, number_key, small};
use crate::disk::levels::LevelsOptions;

fn puts(keys: impl Iterator<Item = u64>) -> Vec<AnyWrite> {
    keys.map(|key| AnyWrite::Put(number_key(key), vec![1; 100])).collect()
}

fn report(options: &LevelsOptions, steps: Vec<Vec<AnyWrite>>) -> String {
    let mut rig = Rig::new(options);
    let mut text = String::new();
    for step in steps {
        rig.incorporate(step);
        text += "incorporate\n";
        rig.work().iter().for_each(|job| text += &format!("{job}\n"));
    }
    text + &rig.describe()
}

fn compare(name: &str, text: &str) {
    let path = format!("{}/src/disk/levels/tests/goldens/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("ALLUVIUM_REWRITE_GOLDENS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(golden == text, "{path} differs:\n{text}");
}

fn options(preset: &str) -> LevelsOptions {
    small(match preset {
        "leveled" => LevelsOptions::leveled(),
        "tiered" => LevelsOptions::tiered(),
        _ => LevelsOptions::skip(),
    })
}

#[test]
fn a_sequential_load() {
    for preset in ["leveled", "tiered", "skip"] {
        let steps = (0..8).map(|step| puts(step * 200..step * 200 + 200)).collect();
        compare(&format!("{preset}-sequential"), &report(&options(preset), steps));
    }
}

#[test]
fn a_random_load() {
    for preset in ["leveled", "tiered", "skip"] {
        let mut random = Random(31);
        let mut step = |_| puts((0..200).map(|_| random.next() % 10_000));
        let steps = (0..10).map(&mut step).collect();
        compare(&format!("{preset}-random"), &report(&options(preset), steps));
    }
}

/// Files that are mostly tombstones go down, and are gone at the bottom.
#[test]
fn a_load_that_is_deleted() {
    for preset in ["leveled", "tiered", "skip"] {
        let mut steps: Vec<_> = (0..4).map(|step| puts(step * 200..step * 200 + 200)).collect();
        steps.push((100..500).map(|key| AnyWrite::Delete(number_key(key))).collect());
        steps.push(vec![AnyWrite::RangeDelete(number_key(600), number_key(900))]);
        compare(&format!("{preset}-deleted"), &report(&options(preset), steps));
    }
}
