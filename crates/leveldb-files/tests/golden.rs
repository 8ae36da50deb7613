//! A directory that LevelDB 1.23 wrote, for machines without LevelDB. `golden/` has the keys `key0000` to `key0999`.
//! The value is the number, repeated ten times. Keys that are divisible by 3 were deleted. The last hundred keys are in
//! the log.

use crate::writer::{Model, Script, as_leveldb_reads, read};
use alluvium_leveldb_files::{Database, Options};
use std::path::Path;

fn script() -> Script {
    let mut script = Script::default();
    script.open(66_000, true);
    let value = |number: u32| number.to_string().repeat(10);
    for round in ["old", ""] {
        for number in 0..1_000_u32 {
            script.put(format!("key{number:04}"), format!("{}{round}", value(number)));
        }
    }
    for number in (0..900_u32).step_by(3) {
        script.delete(format!("key{number:04}"));
    }
    script.command("c");
    for number in 900..1_000_u32 {
        script.put(format!("key{number:04}"), value(number));
        if number % 3 == 0 {
            script.delete(format!("key{number:04}"));
        }
    }
    script.command("k");
    script
}

#[test]
fn the_golden_directory_reads_as_it_was_written() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    if std::env::var_os("ALLUVIUM_GOLDEN").is_some() {
        script().run(&golden).expect("LevelDB is installed");
    }
    let (found, left_out) = read(&golden, Options::default()).unwrap();
    let expected: Model = (0..1_000_u32)
        .filter(|number| number % 3 != 0)
        .map(|number| (format!("key{number:04}").into_bytes(), number.to_string().repeat(10).into_bytes()))
        .collect();
    assert!(found == expected && left_out == 0, "{} pairs, {left_out} places left out", found.len());
    let (tables, logs) = Database::open(&golden, Options::default()).unwrap().files();
    assert!(tables >= 1 && logs == 1, "{tables} tables, {logs} logs");
    if let Some(real) = as_leveldb_reads(&golden) {
        assert!(real == expected, "LevelDB finds {} pairs", real.len());
    }
}
