//! Every engine with keyspaces that is built in does what the trait says.

use super::*;
use std::path::Path;

fn setup(directory: &Path, names: &[&str]) -> KeyspaceSetup {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    KeyspaceSetup { directory: directory.to_owned(), memory: Some(64 << 20), names, blobs_from: None }
}

fn sorted(store: &dyn KeyspaceStore) -> Vec<String> {
    let mut names = store.names().unwrap();
    names.sort();
    names
}

fn keys_from(keyspace: &dyn NamedKeyspace, from: u8, pairs: u64) -> Vec<u8> {
    let mut keys = Vec::new();
    let visited = keyspace.seek(&[from], pairs, &mut |key, value| {
        assert_eq!(value, key);
        keys.push(key[0]);
    });
    assert_eq!(visited.unwrap(), keys.len() as u64);
    keys
}

#[test]
fn keyspaces_are_created_written_opened_again_and_dropped() {
    for kind in select_with_keyspaces(&[]).unwrap().taken {
        let name = kind.name;
        let folder = tempfile::tempdir().unwrap();
        let open = opener(name).unwrap();
        let mut store = open(&setup(folder.path(), &[])).unwrap();
        store.create("a").unwrap();
        store.create("b").unwrap();
        assert_eq!(sorted(&*store), ["a", "b"], "{name}");
        assert!(store.keyspace("c").is_err());
        let before = store.logged_bytes().unwrap();
        store.keyspace("a").unwrap().put(b"key", &[1; 1000]).unwrap();
        store.keyspace("b").unwrap().put_batch(&[(b"key", b"two"), (b"other", b"three")]).unwrap();
        assert!(store.logged_bytes().unwrap() >= before + 1000, "{name}");
        store.close().unwrap();

        let mut store = open(&setup(folder.path(), &["a", "b"])).unwrap();
        let mut value = Vec::new();
        assert!(store.keyspace("a").unwrap().get(b"key", &mut value).unwrap());
        assert_eq!(value, [1; 1000], "{name}");
        assert!(store.keyspace("b").unwrap().get(b"key", &mut value).unwrap());
        assert_eq!(value, b"two", "{name}");
        assert!(!store.keyspace("a").unwrap().get(b"other", &mut value).unwrap());
        store.drop_keyspace("a").unwrap();
        assert!(store.drop_keyspace("a").is_err() && store.keyspace("a").is_err());
        store.close().unwrap();

        let store = open(&setup(folder.path(), &["b"])).unwrap();
        assert_eq!(sorted(&*store), ["b"], "{name}");
        assert!(store.keyspace("b").unwrap().get(b"other", &mut value).unwrap());
        store.close().unwrap();
        assert!(!version(name).is_empty());
    }
}

#[test]
fn a_range_is_deleted_before_and_after_a_flush_and_a_compaction() {
    for kind in select_with_keyspaces(&[]).unwrap().taken {
        let folder = tempfile::tempdir().unwrap();
        let mut store = opener(kind.name).unwrap()(&setup(folder.path(), &[])).unwrap();
        store.create("data").unwrap();
        let keyspace = store.keyspace("data").unwrap();
        for key in 0..100u8 {
            keyspace.put(&[key], &[key]).unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.delete_range(&[20], &[80]).unwrap();
        let check = || {
            assert_eq!(keys_from(&*keyspace, 40, 2), [80, 81], "{}", kind.name);
            assert_eq!(keys_from(&*keyspace, 18, 3), [18, 19, 80], "{}", kind.name);
            assert_eq!(keys_from(&*keyspace, 99, 2), [99], "{}", kind.name);
        };
        check();
        keyspace.flush().unwrap();
        check();
        keyspace.compact().unwrap();
        check();
        drop(keyspace);
        store.close().unwrap();
    }
}

#[test]
fn only_engines_with_keyspaces_are_taken() {
    let all = select_with_keyspaces(&[]).unwrap();
    assert_eq!(all.taken.len() + all.skipped.len(), NAMES.len());
    assert!(all.taken.iter().all(|kind| opener(kind.name).is_some()));
    let named = |name: &str| select_with_keyspaces(&[name.to_owned()]).map(|selection| selection.taken.len());
    assert_eq!(named("alluvium"), Ok(1));
    for name in ["lmdb", "oracle"] {
        assert!(named(name).unwrap_err().contains(name));
    }
}
