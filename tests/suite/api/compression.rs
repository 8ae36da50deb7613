//! `Options::compression` and `deep_compression`.

use crate::support::expect_sound;
use alluvium::storage::{MemoryStorage, Storage};
use alluvium::{Compression, Db, DiskComponent, LevelsOptions, Options};
use std::sync::Arc;

const PAIRS: u32 = 6_000;

fn value(at: u32) -> Vec<u8> {
    format!("sand and silt of river {at:08} ").repeat(10).into_bytes()
}

/// Fills a store. Returns the bytes of its files with what was just written from memory, and after everything was merged.
fn sizes(options: Options) -> (u64, u64) {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
    let pause = db.pause_background();
    // Two runs, so that there is something to merge.
    for odd in [0, 1] {
        for at in (odd..PAIRS).step_by(2) {
            db.put(at.to_be_bytes(), value(at)).unwrap();
        }
        db.flush().unwrap();
    }
    let light = db.stats().branch_bytes;
    drop(pause);
    db.compact().unwrap();
    let deep = db.stats().branch_bytes;
    expect_sound(&db);
    db.close().unwrap();
    let db = Db::open_with(storage, options).unwrap();
    for at in 0..PAIRS {
        assert_eq!(db.get(at.to_be_bytes()).unwrap().as_deref(), Some(&value(at)[..]));
    }
    assert!(db.iter().unwrap().map(Result::unwrap).eq((0..PAIRS).map(|at| (at.to_be_bytes().to_vec(), value(at)))));
    (light, deep)
}

#[test]
fn old_data_has_a_compression_of_its_own() {
    let levels = |options: LevelsOptions| Some(DiskComponent::Levels(options));
    for component in
        [None, levels(LevelsOptions::leveled()), levels(LevelsOptions::tiered()), levels(LevelsOptions::skip())]
    {
        let options = || Options::new().memory_budget(64 << 20).disk_component(component.clone());
        let plain = sizes(options());
        let zstd = sizes(options().compression(Compression::Zstd));
        let mixed = sizes(options().deep_compression(Compression::Zstd));
        let light = sizes(options().compression(Compression::Zstd).deep_compression(Compression::None));
        assert!(zstd.0 * 3 < plain.0 && zstd.1 * 3 < plain.1, "{component:?}: {zstd:?}, {plain:?}");
        assert!(mixed.1 * 3 < plain.1, "{component:?}: {mixed:?}, {plain:?}");
        assert!(light.1 > zstd.1 * 3, "{component:?}: {light:?}, {zstd:?}");
        assert!(mixed.0 > zstd.0 * 3, "{component:?}: what comes from memory is not deep: {mixed:?}, {zstd:?}");
    }
}
