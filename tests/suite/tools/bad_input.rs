//! Bad input gives a clear error that names file and offset. Nothing panics, and nothing is written.

use crate::support::{Random, tiny};
use alluvium::{Db, Depth, Error, Options, WriteBatch};
use std::collections::BTreeMap;
use std::path::Path;

fn fill(path: &Path) {
    let db = Db::open(path, tiny()).unwrap();
    let mut random = Random(3);
    for number in 0..3000u32 {
        db.put(number.to_be_bytes(), random.bytes(60)).unwrap();
    }
    db.put("large", vec![5; 300_000]).unwrap();
    db.flush().unwrap();
    for number in 3000..3200u32 {
        db.put(number.to_be_bytes(), random.bytes(60)).unwrap();
    }
    db.close().unwrap();
}

fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

/// Replaces a directory by one with exactly these files.
fn copy(from: &BTreeMap<String, Vec<u8>>, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    for (name, bytes) in from {
        std::fs::write(to.join(name), bytes).unwrap();
    }
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Opens, reads everything and verifies. Returns all pairs, or the first error.
fn read_all(path: &Path) -> Result<Pairs, Error> {
    let db = Db::open(path, tiny().create_if_missing(false))?;
    let pairs = db.iter()?.collect::<Result<Vec<_>, _>>()?;
    for (key, value) in &pairs {
        assert_eq!(db.get(key)?.as_ref(), Some(value), "a get finds another value than the scan");
    }
    db.verify()?;
    Ok(pairs)
}

#[test]
fn a_file_instead_of_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, "text").unwrap();
    let error = Db::open(&path, Options::default()).unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"text");
    assert!(Db::destroy(&path).is_err());
}

#[test]
fn a_directory_with_other_files_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("thesis.txt"), "years of work").unwrap();
    let before = files(directory.path());
    let error = Db::open(directory.path(), Options::default()).unwrap_err();
    assert!(matches!(&error, Error::NoStore { .. }) && error.to_string().contains("thesis.txt"), "{error}");
    assert!(matches!(Db::destroy(directory.path()), Err(Error::NoStore { .. })));
    assert_eq!(files(directory.path()), before);
}

#[test]
fn a_missing_store_is_created_only_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("absent");
    let error = Db::open(&path, Options::new().create_if_missing(false)).unwrap_err();
    assert!(matches!(error, Error::NoStore { .. }), "{error}");
    assert!(!path.exists());
    assert!(matches!(Db::destroy(&path), Err(Error::NoStore { .. })));
}

#[test]
fn an_open_store_cannot_be_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    db.put("a", "1").unwrap();
    assert!(matches!(Db::open(directory.path(), tiny()), Err(Error::AlreadyOpen { .. })));
    assert!(matches!(Db::destroy(directory.path()), Err(Error::AlreadyOpen { .. })));
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    drop(db);
    assert_eq!(Db::open(directory.path(), tiny()).unwrap().get("a").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn destroy_removes_the_store_and_only_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    fill(&path);
    std::fs::write(path.join("note.txt"), "mine").unwrap();
    Db::destroy(&path).unwrap();
    assert_eq!(files(&path).keys().collect::<Vec<_>>(), ["note.txt"]);
    std::fs::remove_file(path.join("note.txt")).unwrap();
    fill(&path);
    Db::destroy(&path).unwrap();
    assert!(!path.exists());
}

#[test]
fn sizes_beyond_the_limits() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    assert!(matches!(db.put(vec![0; (64 << 10) + 1], ""), Err(Error::InvalidArgument(_))));
    assert!(matches!(db.put("k", vec![0; (1 << 30) + 1]), Err(Error::InvalidArgument(_))));
    let mut batch = WriteBatch::new();
    for key in 0..140u8 {
        batch.put([key], vec![0; 250 << 10]);
    }
    assert!(matches!(db.write(batch), Err(Error::InvalidArgument(_))));
    // A regression test: only keys and values were counted, so a batch of millions of tiny keys exceeded its memory.
    let mut batch = WriteBatch::new();
    for key in 0..600_000u32 {
        batch.delete(key.to_be_bytes());
    }
    assert!(matches!(db.write(batch), Err(Error::InvalidArgument(_))));
    assert_eq!(db.iter().unwrap().count(), 0);
    // Sizes at the limits are accepted.
    let key = vec![9; 64 << 10];
    db.put(&key, "v").unwrap();
    db.put("", "").unwrap();
    db.put("big", vec![1; 3 << 20]).unwrap();
    db.flush().unwrap();
    assert_eq!(db.get(&key).unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(db.get("").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(db.get("big").unwrap(), Some(vec![1; 3 << 20]));
}

/// Every kind of file, truncated to many lengths and with bits flipped at many places, gives an error that names the
/// file, or the right answer.
#[test]
fn truncated_and_flipped_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let origin = directory.path().join("origin");
    fill(&origin);
    let right = read_all(&origin).unwrap();
    let originals = files(&origin);
    let damaged = directory.path().join("damaged");
    let mut random = Random(11);
    let mut found_by_kind: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let kind_of = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    for (name, bytes) in originals.iter().filter(|(name, _)| *name != "LOCK") {
        let places: Vec<usize> = (0..12)
            .map(|round| match round {
                // Places in headers and footers, which have structure, and anywhere.
                0..4 => random.below(bytes.len().min(64) as u64) as usize,
                4..6 => bytes.len() - 1 - random.below(bytes.len().min(64) as u64) as usize,
                _ => random.below(bytes.len() as u64) as usize,
            })
            .collect();
        for (round, place) in places.into_iter().enumerate() {
            copy(&originals, &damaged);
            let mut changed = bytes.clone();
            let what = if round % 3 == 2 {
                changed.truncate(place);
                format!("{name} cut to {place} of {}", bytes.len())
            } else {
                changed[place] ^= 1 << random.below(8);
                format!("{name} flipped at {place}")
            };
            std::fs::write(damaged.join(name), changed).unwrap();
            let counts = found_by_kind.entry(kind_of(name)).or_default();
            match read_all(&damaged) {
                Ok(pairs) => {
                    assert!(pairs == right, "{what}: a wrong answer without an error");
                    counts.1 += 1;
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(name.as_str()), "{what}: the error does not name the file: {text}");
                    counts.0 += 1;
                }
            }
        }
    }
    println!("kind: (found, harmless): {found_by_kind:?}");
    for kind in ["branch", "value", "MANIFEST", "log"] {
        assert!(found_by_kind[kind].0 > 0, "no damage of {kind} files was found: {found_by_kind:?}");
    }
}

/// Opening a store of a newer format version is an error and changes nothing.
#[test]
fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fill(directory.path());
    let originals = files(directory.path());
    let kinds = ["MANIFEST", ".log", ".branch", ".value"];
    for kind in kinds {
        let (name, bytes) = originals.iter().find(|(name, _)| name.ends_with(kind)).unwrap();
        let mut newer = bytes.clone();
        // The version follows the eight bytes of magic, in the first page of each file, or in the last page of
        // branches.
        let page = if kind == ".branch" { newer.len() - 4096 } else { 0 };
        let header = &mut newer[page..page + 64];
        let at = header.windows(4).position(|bytes| bytes == 1u32.to_le_bytes()).unwrap();
        header[at..at + 4].copy_from_slice(&99u32.to_le_bytes());
        // Another byte must differ as well: if only the version is changed, it is reported as damage.
        let other = if kind == ".branch" { newer.len() - 2000 } else { 300 };
        newer[other] ^= 1;
        let path = directory.path().join("newer");
        copy(&originals, &path);
        std::fs::write(path.join(name), &newer).unwrap();
        match read_all(&path) {
            Err(Error::NewerFormat { path, found, supported }) => {
                assert!(path.ends_with(name), "{}", path.display());
                assert_eq!((found, supported), (99, 1));
            }
            other => panic!("{name}: {:?}", other.map(|pairs| pairs.len())),
        }
        assert_eq!(std::fs::read(directory.path().join("newer").join(name)).unwrap(), newer);
    }
}

/// A manifest that was cut short names files that were removed later. Once, `verify` listed these first and the cause
/// last, and gave its offset as 0.
#[test]
fn a_manifest_that_was_cut_short_is_named_first_and_at_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let manifest = path.join("MANIFEST");
    let db = Db::open(&path, Options::default()).unwrap();
    for round in 0..3 {
        (0..1000).for_each(|key| db.put(format!("key{key}"), format!("{round}")).unwrap());
        db.flush().unwrap();
    }
    let shorter = std::fs::read(&manifest).unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    assert!(std::fs::read(&manifest).unwrap().starts_with(&shorter), "the manifest was rotated");
    std::fs::write(&manifest, &shorter).unwrap();
    let found = Db::verify_closed(&path, Depth::Quick, &mut |_| ()).unwrap();
    assert!(found.damage.len() > 1, "no file was removed: {:?}", found.damage);
    let opening = Db::open(&path, Options::default()).unwrap_err();
    for error in [&found.damage[0], &opening] {
        match error {
            Error::Corruption { path, offset, what, .. } => {
                assert_eq!((path, *offset), (&manifest, shorter.len() as u64), "{error}");
                assert!(what.contains("manifest edits"), "{error}");
            }
            other => panic!("{other}"),
        }
    }
}
