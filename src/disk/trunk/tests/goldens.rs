//! The shape of small trees and the work that made it, as text, in `goldens/`. With `ALLUVIUM_REWRITE_GOLDENS` set the
//! files are written instead of compared; they change with the sizes of branch files.

use super::rig::{Random, Rig, Write, key, small_options};

/// `count` writes of keys that start with `prefix`, in order.
pub fn writes(prefix: &str, count: usize) -> Vec<Write> {
    (0..count).map(|at| (key(&format!("{prefix}{at:05}")), Some(vec![1; 100]))).collect()
}

fn report(rig: &mut Rig, steps: Vec<Vec<Write>>) -> String {
    let mut text = String::new();
    for step in steps {
        rig.incorporate(step);
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
    assert!(rig.trunk.pick(&rig.tree).is_none());
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
