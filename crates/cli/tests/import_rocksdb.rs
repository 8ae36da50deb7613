//! `import --from rocksdb`: databases that RocksDB writes here, what becomes of their column families, and what is rejected.

use crate::support::{Store, names};
use rocksdb::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactOptions, DB, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT,
    MergeOperands, Options,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Where a test has its database.
fn path(store: &Store) -> PathBuf {
    store.path().with_extension("rocksdb")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options
}

/// A database with these column families.
fn create(path: &Path, families: &[&str]) -> DB {
    DB::open_cf(&options(), path, families).unwrap()
}

/// A database with two pairs in each of these column families.
fn create_small(path: &Path, families: &[&str]) -> DB {
    let db = create(path, families);
    for family in families {
        put(&db, family, b"a", family.as_bytes());
        put(&db, family, b"b", b"2");
    }
    db
}

fn put(db: &DB, family: &str, key: &[u8], value: &[u8]) {
    db.put_cf(db.cf_handle(family).unwrap(), key, value).unwrap();
}

/// Every file of a directory with its bytes.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    names(directory).into_iter().map(|name| (name.clone(), fs::read(directory.join(name)).unwrap())).collect()
}

/// The only file with this ending that is not empty.
fn file(directory: &Path, ending: &str) -> PathBuf {
    let is_it = |(name, bytes): &(String, Vec<u8>)| name.ends_with(ending) && !bytes.is_empty();
    let found: Vec<_> = contents(directory).into_iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{:?}", names(directory));
    directory.join(&found[0].0)
}

fn flip(file: &Path, offset: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[offset] ^= 1;
    fs::write(file, bytes).unwrap();
}

fn of_hex(text: &str) -> Vec<u8> {
    text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The pairs of a keyspace of the store.
fn pairs(store: &Store, keyspace: &str) -> Pairs {
    let done = store.run(&["scan", "--hex", "--keyspace", keyspace]).expect(0);
    let pair = |line: &str| line.split_once('\t').map(|(key, value)| (of_hex(key), of_hex(value))).unwrap();
    done.text().lines().map(pair).collect()
}

fn small(family: &str) -> Pairs {
    Pairs::from([(b"a".to_vec(), family.as_bytes().to_vec()), (b"b".to_vec(), b"2".to_vec())])
}

fn import<'a>(source: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["import", "--from", "rocksdb", text(source)], more].concat()
}

#[test]
fn column_families_become_keyspaces_and_the_source_stays_as_it_is() {
    let store = Store::new();
    let source = path(&store);
    let (mut of_default, mut of_users) = (Pairs::new(), Pairs::new());
    {
        let db = create(&source, &[DEFAULT, "users"]);
        let mut set = |family: &str, key: &[u8], value: &[u8]| {
            put(&db, family, key, value);
            let model = if family == DEFAULT { &mut of_default } else { &mut of_users };
            model.insert(key.to_vec(), value.to_vec());
        };
        for number in 0..1000 {
            set(DEFAULT, format!("key{number:04}").as_bytes(), format!("first {number}").as_bytes());
        }
        set("users", b"gone", b"soon");
        set("users", b"kept", b"in a table");
        db.flush().unwrap();
        db.flush_cf(db.cf_handle("users").unwrap()).unwrap();
        // From here on everything is only in the log.
        for number in (0..1000).step_by(3) {
            set(DEFAULT, format!("key{number:04}").as_bytes(), format!("second {number}").as_bytes());
        }
        set("users", b"empty", b"");
        set("users", b"large", &vec![7; 1 << 20]);
        set("users", b"\x00\xff\t\n", b"\xfe\x00\n");
        set("users", b"", b"of the empty key");
        for number in (0..1000).step_by(7) {
            let key = format!("key{number:04}");
            db.delete(&key).unwrap();
            of_default.remove(key.as_bytes());
        }
        db.delete_cf(db.cf_handle("users").unwrap(), b"gone").unwrap();
        of_users.remove(&b"gone"[..]);
        db.delete_range_cf(db.cf_handle(DEFAULT).unwrap(), "key0500", "key0600").unwrap();
        of_default.retain(|key, _| !(&b"key0500"[..]..&b"key0600"[..]).contains(&&key[..]));
    }
    assert!(fs::metadata(file(&source, ".log")).unwrap().len() > 1 << 20, "the log has no data");
    let before = contents(&source);

    let report = store.run(&import(&source, &["--json"])).expect(0).json();
    let bytes = |pairs: &Pairs| pairs.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    assert_eq!(report["keys"], of_default.len() + of_users.len(), "{report}");
    assert_eq!(report["bytes"], bytes(&of_default) + bytes(&of_users), "{report}");
    for (figure, number) in [("column_families", 2), ("tables", 2), ("logs", 1), ("long_keys", 0)] {
        assert_eq!(report[figure], number, "{figure}: {report}");
    }
    assert!(report["source_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{report}");
    assert!(pairs(&store, DEFAULT) == of_default);
    assert!(pairs(&store, "users") == of_users);
    assert!(contents(&source) == before, "the source has changed: {:?}", names(&source));
    // With the table as output.
    let again = store.run(&import(&source, &[])).expect(0);
    assert!(again.text().contains("table files read") && again.text().contains("column families"), "{again:?}");
    assert!(pairs(&store, "users") == of_users);
}

#[test]
fn column_families_can_be_chosen() {
    let store = Store::new();
    let source = path(&store);
    drop(create_small(&source, &[DEFAULT, "users", "visits"]));
    let unknown = store.run(&import(&source, &["--column-family", "user"]));
    unknown.refused(2, "has no column family \"user\"; it has \"default\", \"users\", \"visits\"");
    store.run(&import(&source, &["--keyspace", "people"])).refused(2, "has 3; choose one with --column-family");
    assert!(!store.path().exists());
    store.run(&import(&source, &["--column-family", "users", "--keyspace", "people"])).expect(0);
    assert_eq!(pairs(&store, "people"), small("users"));
    store.run(&["scan", "--keyspace", "users"]).refused(2, "users");
    let twice = ["--column-family", "visits", "--column-family", "users", "--column-family", "visits", "--json"];
    assert_eq!(store.run(&import(&source, &twice)).expect(0).json()["keys"], 4);
    assert_eq!((pairs(&store, "visits"), pairs(&store, "users")), (small("visits"), small("users")));
    assert_eq!(pairs(&store, DEFAULT), Pairs::new());
    store.run(&import(&source, &["--column-family", "users", "--keyspace", "default"])).expect(0);
    assert_eq!(pairs(&store, DEFAULT), small("users"));
}

/// Pairs with other keys stay, as they do in an import of LevelDB, and a note says that others do not.
#[test]
fn pairs_of_the_store_are_replaced_only_by_those_of_their_keys() {
    let store = Store::new();
    let source = path(&store);
    drop(create_small(&source, &[DEFAULT, "users"]));
    store.run(&["put", "--keyspace", "users", "b", "mine"]).expect(0);
    store.run(&["put", "--keyspace", "users", "c", "mine"]).expect(0);
    let done = store.run(&import(&source, &[])).expect(0);
    assert!(done.err.contains("note: the keyspace \"users\" has pairs already"), "{done:?}");
    assert!(!done.err.contains("the keyspace \"default\""), "{done:?}");
    let mut expected = small("users");
    expected.insert(b"c".to_vec(), b"mine".to_vec());
    assert_eq!((pairs(&store, "users"), pairs(&store, DEFAULT)), (expected, small(DEFAULT)));
}

#[test]
fn a_column_family_enters_whole_or_not_at_all() {
    let store = Store::new();
    let source = path(&store);
    {
        let db = create_small(&source, &[DEFAULT, "long"]);
        put(&db, "long", &[b'b'; 70_000], b"too long");
        put(&db, "long", b"c", b"3");
    }
    let refused = store.run(&import(&source, &[]));
    assert!(refused.err.contains("begins with \"bbbb") && refused.err.contains("70000 bytes"), "{refused:?}");
    assert!(refused.err.contains("--skip-long-keys skips such keys"), "{refused:?}");
    refused.refused(2, "nothing of the column family \"long\" is loaded; the column family before it is");
    assert_eq!((pairs(&store, DEFAULT), pairs(&store, "long")), (small(DEFAULT), Pairs::new()));
    let report = store.run(&import(&source, &["--skip-long-keys", "--json"])).expect(0).json();
    assert_eq!((&report["keys"], &report["long_keys"]), (&5.into(), &1.into()), "{report}");
    assert_eq!(pairs(&store, "long").len(), 3);
}

#[test]
fn other_orders_are_refused() {
    let store = Store::new();
    let source = path(&store);
    let reversed = || {
        let mut reversed = options();
        reversed.set_comparator("test.reversed", Box::new(|one, other| other.cmp(one)));
        reversed
    };
    let plain = || ColumnFamilyDescriptor::new("plain", options());
    {
        let other = ColumnFamilyDescriptor::new("other", reversed());
        let db = DB::open_cf_descriptors(&options(), &source, [plain(), other]).unwrap();
        put(&db, "plain", b"a", b"1");
        put(&db, "other", b"a", b"1");
    }
    let refused = store.run(&import(&source, &[]));
    assert!(refused.err.contains("the column family \"other\" of"), "{refused:?}");
    assert!(refused.err.contains("--column-family chooses others"), "{refused:?}");
    refused.refused(2, "is sorted by the comparator \"test.reversed\"");
    assert!(!store.path().exists());
    store.run(&import(&source, &["--column-family", "plain"])).expect(0);
    assert_eq!(pairs(&store, "plain").len(), 1);

    let source = store.path().with_extension("reversed");
    let default = ColumnFamilyDescriptor::new(DEFAULT, reversed());
    drop(DB::open_cf_descriptors(&options(), &source, [default, plain()]).unwrap());
    let refused = store.run(&import(&source, &["--column-family", "plain"]));
    assert!(!refused.err.contains("chooses others"), "{refused:?}");
    refused.refused(2, "the column family \"default\" of");
}

fn concatenate(_: &[u8], value: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    Some(value.into_iter().chain(operands.iter()).flatten().copied().collect())
}

#[test]
fn merge_operands_are_refused_until_a_compaction_makes_values_of_them() {
    let store = Store::new();
    let source = path(&store);
    let mut merging = options();
    merging.set_merge_operator_associative("test.concatenate", concatenate);
    let open =
        || DB::open_cf_with_opts(&merging, &source, [(DEFAULT, options()), ("merged", merging.clone())]).unwrap();
    {
        let db = open();
        put(&db, DEFAULT, b"a", b"1");
        let merged = db.cf_handle("merged").unwrap();
        put(&db, "merged", b"a", b"1");
        db.merge_cf(merged, b"b", b"1").unwrap();
        db.merge_cf(merged, b"b", b"2").unwrap();
    }
    // In the log, and in a table.
    let refused = |error: &str| {
        let refused = store.run(&import(&source, &[]));
        assert!(refused.err.contains("cannot read the column family \"merged\" of"), "{refused:?}");
        assert!(refused.err.contains(error), "{refused:?}");
        refused.refused(2, "it has merge operands, whose operator only its program has");
    };
    refused("Merge requires `ColumnFamilyOptions::merge_operator");
    assert!(!store.path().exists());
    {
        let db = open();
        db.flush_cf(db.cf_handle("merged").unwrap()).unwrap();
    }
    refused("merge_operator_ must be set.\n");
    assert_eq!((pairs(&store, DEFAULT).len(), pairs(&store, "merged").len()), (1, 0));
    {
        let db = open();
        let mut forced = CompactOptions::default();
        forced.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        db.compact_range_cf_opt(db.cf_handle("merged").unwrap(), None::<&[u8]>, None::<&[u8]>, &forced);
    }
    store.run(&import(&source, &[])).expect(0);
    assert_eq!(pairs(&store, "merged")[&b"b"[..]], b"12");
}

#[test]
fn a_database_that_is_open_is_refused() {
    let store = Store::new();
    let source = path(&store);
    let db = create_small(&source, &[DEFAULT]);
    store.run(&import(&source, &[])).refused(2, "is open in another process; close it there first");
    assert!(!store.path().exists());
    drop(db);
    store.run(&import(&source, &[])).expect(0);
    assert_eq!(pairs(&store, DEFAULT), small(DEFAULT));
}

#[test]
fn damage_is_an_error_and_the_incomplete_end_of_a_log_is_not() {
    let store = Store::new();
    let source = path(&store);
    let db = create_small(&source, &[DEFAULT]);
    db.flush().unwrap();
    put(&db, DEFAULT, b"c", &[3; 500]);
    put(&db, DEFAULT, b"d", &[4; 500]);
    drop(db);
    let (log, table) = (file(&source, ".log"), file(&source, ".sst"));
    // The first of two records. RocksDB's default would import neither, and say nothing.
    flip(&log, 100);
    let refused = store.run(&import(&source, &[]));
    assert!(refused.err.contains(&format!("cannot open {}", source.display())), "{refused:?}");
    refused.refused(3, "Corruption");
    assert!(!store.path().exists());
    flip(&log, 100);
    // The end of the second one.
    let length = fs::metadata(&log).unwrap().len();
    fs::File::options().write(true).open(&log).unwrap().set_len(length - 3).unwrap();
    store.run(&import(&source, &[])).expect(0);
    let mut expected = small(DEFAULT);
    expected.insert(b"c".to_vec(), vec![3; 500]);
    assert_eq!(pairs(&store, DEFAULT), expected);
    flip(&table, 5);
    let refused = store.run(&import(&source, &["--keyspace", "damaged"]));
    assert!(refused.err.contains("nothing of the column family \"default\" is loaded"), "{refused:?}");
    refused.refused(3, "cannot read the column family \"default\" of");
    assert_eq!(pairs(&store, "damaged"), Pairs::new());
    store.run(&import(&source, &["--skip-damaged"])).refused(2, "--skip-damaged is for databases of LevelDB");
}

#[test]
fn a_log_in_another_directory_is_not_left_out() {
    let store = Store::new();
    let source = path(&store);
    let logs = store.path().with_extension("logs");
    let mut apart = options();
    apart.set_wal_dir(&logs);
    let db = DB::open(&apart, &source).unwrap();
    db.put("a", "1").unwrap();
    drop(db);
    store.run(&import(&source, &[])).refused(2, &format!("has its log in {}", logs.display()));
    assert!(!store.path().exists());
    let hidden = store.path().with_extension("hidden");
    fs::rename(&logs, &hidden).unwrap();
    let done = store.run(&import(&source, &[])).expect(0);
    assert!(done.err.contains("has no log file; its options name"), "{done:?}");
    for name in names(&hidden) {
        fs::copy(hidden.join(&name), source.join(name)).unwrap();
    }
    let done = store.run(&import(&source, &[])).expect(0);
    assert!(done.err.is_empty(), "{done:?}");
    assert_eq!(store.run(&["get", "a"]).expect(0).text(), "1\n");
}

#[test]
fn what_cannot_be_imported_creates_no_store() {
    let store = Store::new();
    let source = path(&store);
    store.run(&import(&source, &[])).refused(2, "there is no such directory");
    fs::create_dir(&source).unwrap();
    store.run(&import(&source, &[])).refused(2, "it has no file CURRENT");
    fs::write(source.join("CURRENT"), "MANIFEST-000004\n").unwrap();
    store.run(&import(&source, &[])).refused(2, "if LevelDB wrote it, pass --from leveldb");
    fs::write(source.join("IDENTITY"), "a name").unwrap();
    store.run(&import(&source, &[])).refused(2, "MANIFEST-000004");
    fs::remove_dir_all(&source).unwrap();

    let long = "é".repeat(150);
    drop(create_small(&source, &[DEFAULT, &long]));
    let refused = store.run(&import(&source, &[]));
    assert!(refused.err.contains("has 300 bytes"), "{refused:?}");
    refused.refused(2, "no keyspace can have the name of the column family that begins with \"éééé");
    assert!(!store.path().exists());
    store.run(&import(&source, &["--column-family", &long, "--keyspace", "short"])).expect(0);
    assert_eq!(pairs(&store, "short"), small(&long));
    let itself = store.run(&import(&source, &["--db", text(&source)]));
    itself.refused(2, "cannot be imported into itself");
}
