//! Every engine that is built in goes through all scenarios.

use super::super::figures::FIGURES;
use super::*;
use std::collections::BTreeSet;
use std::path::Path;

fn stores(engine: &str, folder: &Path) -> Stores {
    let job = Job { engine: engine.into(), directory: folder.join("stores"), scenario: Scenario::Brief };
    Stores::of(&job).unwrap()
}

fn all() -> [Scenario; 5] {
    let idle = 0.0;
    [
        Scenario::Sizes { bytes: 1 << 20, idle },
        Scenario::Idle { idle },
        Scenario::Brief,
        Scenario::Steps,
        Scenario::Many { stores: 3, idle },
    ]
}

#[test]
fn every_figure_is_measured_and_nothing_is_left() {
    for kind in engines::select_defaults(&[]).unwrap().taken {
        let folder = tempfile::tempdir().unwrap();
        let (stores, mut measured) = (stores(kind.name, folder.path()), Round::new());
        for scenario in all() {
            measured.extend(stores.round(&scenario).unwrap());
            assert!(!stores.directory.exists(), "{}, {scenario:?}", kind.name);
        }
        let names: BTreeSet<&str> = measured.keys().map(String::as_str).collect();
        assert_eq!(names, FIGURES.iter().map(|figure| figure.name).collect(), "{}", kind.name);
        for name in ["thousand_closed_length", "large_closed_allocated", "brief_ns", "reopen_ns", "many_close_ns"] {
            assert!(measured[name] > 0.0, "{}: {name}", kind.name);
        }
        assert!(measured["large_closed_length"] > (1 << 20) as f64 * 0.9, "{}: {measured:?}", kind.name);
    }
}

#[test]
fn a_failed_round_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let stores = stores("alluvium", folder.path());
    fs::write(folder.path().join("stores"), "not a directory").unwrap();
    assert!(stores.round(&Scenario::Brief).is_err());
    let job = Job { engine: "oracle".into(), directory: "x".into(), scenario: Scenario::Brief };
    assert!(Stores::of(&job).err().unwrap().to_string().contains("oracle"));
}
