//! Torn, flipped and missing bytes.

use crate::writer::{Random, Script, as_leveldb_reads, copy, read};
use alluvium_leveldb_files::{Error, Options};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SKIP: Options = Options { skip_damaged: true };

/// Writes a database with tables and a log, by a process that died.
fn written() -> Option<(TempDir, Script)> {
    let directory = tempfile::tempdir().unwrap();
    let mut script = Script::default();
    script.open(70_000, true);
    let mut random = Random(5);
    for _ in 0..6_000 {
        let key = format!("key{:05}", random.below(2_000));
        if random.below(5) == 0 {
            script.delete(key);
        } else {
            let length = random.below(60) as usize;
            script.put(key, (0..length).map(|_| random.below(256) as u8).collect::<Vec<_>>());
        }
    }
    script.command("k").run(directory.path())?;
    Some((directory, script))
}

fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}

/// A log that is cut at any offset: this crate reads what LevelDB reads.
#[test]
fn torn_logs_read_as_leveldb_reads_them() {
    let Some((directory, _)) = written() else { return };
    let log = files(directory.path(), ".log").pop().unwrap();
    let length = fs::metadata(&log).unwrap().len();
    let mut random = Random(7);
    for round in 0..25 {
        let torn = copy(directory.path());
        // The first round cuts the last byte of the last record.
        let cut = length - if round == 0 { 1 } else { random.below(length.min(3_000)) };
        fs::File::options().write(true).open(torn.path().join(log.file_name().unwrap())).unwrap().set_len(cut).unwrap();
        let (found, left_out) = read(torn.path(), Options::default()).unwrap();
        assert!(as_leveldb_reads(torn.path()) == Some(found), "cut at {cut} of {length}");
        assert!(left_out == 1 || round > 0, "the unfinished record is not reported");
    }
}

/// After a bit flip in a table, a log or the manifest, the result is an error that names the file, or the data that was
/// written, never anything else.
#[test]
fn flipped_bits_are_found() {
    let Some((directory, script)) = written() else { return };
    let mut random = Random(11);
    let (mut reported, mut harmless) = (0, 0);
    let all = [files(directory.path(), ".ldb"), files(directory.path(), ".log"), files(directory.path(), "")].concat();
    for round in 0..150 {
        let damaged = copy(directory.path());
        let file = &all[random.below(all.len() as u64) as usize];
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name == "LOG" || name == "LOCK" {
            continue;
        }
        let mut bytes = fs::read(file).unwrap();
        if bytes.is_empty() {
            continue;
        }
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        fs::write(damaged.path().join(&name), bytes).unwrap();
        match read(damaged.path(), Options::default()) {
            Err(error) => {
                // A changed `CURRENT` names a file that is not there.
                let names_it = error.to_string().contains(if name == "CURRENT" { "MANIFEST-" } else { &name });
                assert!(error.is_damage() && names_it, "round {round}, {name}: {error}");
                reported += 1;
            }
            // A length that now exceeds the log looks like an unfinished write, which is reported as well.
            Ok((_, left_out)) if left_out > 0 => reported += 1,
            Ok((found, _)) => {
                assert!(found == script.model, "round {round}: the changed byte {at} of {name} was not detected");
                harmless += 1;
            }
        }
        if name.ends_with(".ldb") || name.ends_with(".log") {
            let (found, left_out) = read(damaged.path(), SKIP).unwrap();
            assert!(found == script.model || left_out > 0, "round {round}: {name}");
        }
    }
    assert!(reported > 50 && reported > 4 * harmless, "{reported} reported, {harmless} harmless");
}

#[test]
fn a_missing_table_is_reported_and_can_be_left_out() {
    let Some((directory, script)) = written() else { return };
    let mut reported = 0;
    for table in files(directory.path(), ".ldb") {
        let damaged = copy(directory.path());
        let name = table.file_name().unwrap().to_string_lossy().into_owned();
        fs::remove_file(damaged.path().join(&name)).unwrap();
        match read(damaged.path(), Options::default()) {
            // A table that a compaction has replaced.
            Ok((found, _)) => assert!(found == script.model, "{name}"),
            Err(error) => {
                assert!(error.is_damage() && error.to_string().contains(&name), "{error}");
                let (found, left_out) = read(damaged.path(), SKIP).unwrap();
                assert!(left_out == 1 && found != script.model, "{left_out} places");
                reported += 1;
            }
        }
    }
    assert!(reported > 0);
}

/// A comparator name and a compression type that LevelDB itself does not have.
#[test]
fn other_comparators_and_compression_types_are_errors() {
    let Some((directory, _)) = written() else { return };
    let damaged = copy(directory.path());
    let manifest = damaged.path().join("MANIFEST-000099");
    // A record with an edit that names a comparator, with a valid checksum.
    let name = b"idb_cmp1";
    let edit = [&[1, name.len() as u8][..], name].concat();
    let sum = crc32c(&[&[1][..], &edit].concat()).rotate_right(15).wrapping_add(0xa282_ead8);
    let record = [&sum.to_le_bytes()[..], &(edit.len() as u16).to_le_bytes(), &[1], &edit].concat();
    fs::write(manifest, record).unwrap();
    fs::write(damaged.path().join("CURRENT"), "MANIFEST-000099\n").unwrap();
    let error = read(damaged.path(), Options::default()).unwrap_err();
    assert!(matches!(&error, Error::Comparator { comparator, .. } if comparator == "idb_cmp1"), "{error}");

    let table = files(directory.path(), ".ldb").remove(0);
    let mut bytes = fs::read(&table).unwrap();
    // The first block ends at the first position with a valid trailer.
    let end = (1..bytes.len() - 5).find(|end| {
        let sum = crc32c(&bytes[..=*end]).rotate_right(15).wrapping_add(0xa282_ead8);
        bytes[end + 1..end + 5] == sum.to_le_bytes()
    });
    let end = end.expect("the first block has a checksum");
    bytes[end] = 2;
    let sum = crc32c(&bytes[..=end]).rotate_right(15).wrapping_add(0xa282_ead8);
    bytes[end + 1..end + 5].copy_from_slice(&sum.to_le_bytes());
    fs::write(&table, bytes).unwrap();
    let error = read(directory.path(), SKIP).unwrap_err();
    assert!(matches!(error, Error::Compression { method: 2, offset: 0, .. }), "{error}");
}

/// Computed bit by bit, independent of the library under test.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 })
    })
}
