//! `import`: a directory that LevelDB wrote, what is rejected, and the report. `import_rocksdb` has what RocksDB wrote.

use crate::support::Store;
use std::fs;
use std::path::{Path, PathBuf};

/// A copy of a directory of LevelDB: 666 pairs `key0001` to `key0998`.
fn leveldb(store: &Store) -> PathBuf {
    copy_of(store, "golden")
}

fn copy_of(store: &Store, golden: &str) -> PathBuf {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../leveldb-files/tests").join(golden);
    let copy = store.path().with_extension("leveldb");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(golden).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    copy
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_directory_of_leveldb_is_loaded_and_stays_as_it_is() {
    let store = Store::new();
    let source = leveldb(&store);
    let before = names(&source);
    let report = store.run(&["import", "--from", "leveldb", text(&source), "--json"]).expect(0).json();
    assert_eq!(
        (&report["keys"], &report["tables"], &report["logs"], &report["left_out"]),
        (&666.into(), &1.into(), &1.into(), &0.into())
    );
    let first = store.run(&["scan", "--limit", "2"]).expect(0);
    assert_eq!(first.text(), "key0001\t1111111111\nkey0002\t2222222222\n");
    assert_eq!(store.run(&["get", "key0998"]).expect(0).text(), format!("{}\n", "998".repeat(10)));
    store.run(&["get", "key0003"]).expect(1);
    // Again, with the table as output: the same pairs, overwritten.
    let again = store.run(&["import", "--from", "leveldb", text(&source)]).expect(0);
    assert!(again.text().contains("table files read"), "{again:?}");
    assert_eq!(store.run(&["scan"]).expect(0).text().lines().count(), 666);
    assert_eq!(names(&source), before);
    // Into a keyspace, which the import creates.
    store.run(&["keyspaces", "clear", "default"]).expect(0);
    store.run(&["import", "--from", "leveldb", text(&source), "--keyspace", "old"]).expect(0);
    assert_eq!(store.run(&["scan", "--limit", "2", "--keyspace", "old"]).expect(0).text(), first.text());
    assert!(store.run(&["scan"]).expect(0).out.is_empty());
}

#[test]
fn rejected_imports_create_no_store() {
    let store = Store::new();
    let empty = store.path().with_extension("empty");
    fs::create_dir(&empty).unwrap();
    store.run(&["import", "--from", "leveldb", text(&empty)]).refused(2, "it has no file CURRENT");
    store.run(&["import", "--from", "leveldb", "nosuch"]).refused(2, "there is no such directory");
    store.run(&["import", "--from", "sled", text(&empty)]).expect(2);
    assert!(!store.path().exists());
    let source = leveldb(&store);
    let itself = store.run(&["import", "--from", "leveldb", text(&source), "--db", text(&source)]);
    itself.refused(2, "cannot be imported into itself");
    // Opening such a directory as a store names what it is.
    store.run(&["get", "key0001", "--db", text(&source)]).refused(2, "alluvium import --from leveldb");
    store.run(&["put", "a", "b", "--db", text(&source)]).refused(2, "alluvium import --from leveldb");
}

#[test]
fn damage_is_reported_with_its_place_and_can_be_skipped() {
    let store = Store::new();
    let source = leveldb(&store);
    let table = source.join(names(&source).into_iter().find(|name| name.ends_with(".ldb")).unwrap());
    let mut bytes = fs::read(&table).unwrap();
    bytes[100] ^= 1;
    fs::write(&table, bytes).unwrap();
    let refused = store.run(&["import", "--from", "leveldb", text(&source)]);
    assert!(refused.err.contains("--skip-damaged") && refused.err.contains(text(&table)), "{refused:?}");
    refused.refused(3, "checksum of a block");
    let done = store.run(&["import", "--from", "leveldb", "--skip-damaged", "--json", text(&source)]).expect(0);
    assert!(done.err.contains("skipped: damage in"), "{done:?}");
    let (keys, left_out) = (done.json()["keys"].as_u64().unwrap(), done.json()["left_out"].as_u64().unwrap());
    assert!(left_out == 1 && keys > 100 && keys < 666, "{done:?}");
}

/// LevelDB 1.23 wrote `golden-long-key`: `key0000`, a key of 70,000 times `k`, and `zone`. A regression test: the error
/// once named nothing, and the other pairs could not be imported.
#[test]
fn a_key_that_is_too_long_is_reported_and_can_be_skipped() {
    let store = Store::new();
    let source = copy_of(&store, "golden-long-key");
    let refused = store.run(&["import", "--from", "leveldb", text(&source)]);
    assert!(refused.err.contains("begins with \"kkkk") && refused.err.contains("70000 bytes"), "{refused:?}");
    assert!(refused.err.contains("1 pairs before it are loaded; run again with --skip-long-keys"), "{refused:?}");
    refused.refused(2, "the maximum is 65536");
    let done = store.run(&["import", "--from", "leveldb", "--skip-long-keys", "--json", text(&source)]).expect(0);
    assert_eq!((done.json()["keys"].as_u64(), done.json()["long_keys"].as_u64()), (Some(2), Some(1)), "{done:?}");
    assert_eq!(store.run(&["get", "zone"]).expect(0).out, b"last\n");
}

#[test]
fn a_database_of_rocksdb_is_not_taken_for_one_of_leveldb() {
    let store = Store::new();
    let source = leveldb(&store);
    for name in ["IDENTITY", "OPTIONS-000007"] {
        fs::write(source.join(name), "").unwrap();
        store.run(&["import", "--from", "leveldb", text(&source)]).refused(2, "pass --from rocksdb");
        fs::remove_file(source.join(name)).unwrap();
    }
    let chosen = store.run(&["import", "--from", "leveldb", "--column-family", "users", text(&source)]);
    chosen.refused(2, "--column-family is for databases of RocksDB");
    assert!(!store.path().exists());
}

#[cfg(not(feature = "rocksdb"))]
#[test]
fn a_build_without_rocksdb_says_how_to_make_one_with_it() {
    let store = Store::new();
    let source = leveldb(&store);
    let refused = store.run(&["import", "--from", "rocksdb", text(&source)]);
    assert!(refused.err.contains("lacks the feature `rocksdb`"), "{refused:?}");
    refused.refused(2, "`cargo install --path crates/cli --features rocksdb`");
    assert!(!store.path().exists());
}
