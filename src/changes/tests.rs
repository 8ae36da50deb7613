//! Files that are written, resumed and read, on the simulated disk.

use super::*;
use crate::format::catalog::{self, CatalogEntry};
use crate::format::change_file::{ChangeFileHeader, push_write};
use crate::format::log_record::{BatchEncoder, Operation, batch_length};
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::util::{DatabaseId, Error, KeyspaceId, Kind, SequenceNumber};

const DATABASE: DatabaseId = DatabaseId(99);
const FILE: FileNumber = FileNumber(7);

fn header() -> ChangeFileHeader {
    let after = SequenceNumber(100);
    ChangeFileHeader {
        database: DATABASE,
        file: FILE,
        after,
        date: 1,
        retained_bytes: 2,
        retained_millis: 3,
        ingest: None,
    }
}

fn body(operations: &[Operation<'_>]) -> Vec<u8> {
    let mut body = vec![0; batch_length(operations.iter().copied())];
    let mut encoder = BatchEncoder::new(operations.len() as u64, &mut body);
    operations.iter().for_each(|operation| encoder.push(*operation));
    body
}

fn put<'a>(keyspace: KeyspaceId, key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
    Operation { kind: Kind::Put, keyspace, key, value }
}

/// A frame with one write for each number.
fn payload(before: u64, numbers: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    let (mut payload, mut before) = (Vec::new(), SequenceNumber(before));
    for number in numbers.map(SequenceNumber) {
        let key = number.0.to_be_bytes();
        push_write(before, number, &body(&[put(KeyspaceId::DEFAULT, &key, b"value")]), &mut payload);
        before = number;
    }
    payload
}

fn numbers(reader: &mut ChangeReader) -> Vec<u64> {
    let end = reader.length().unwrap();
    let mut numbers = Vec::new();
    while let Ok(Some(mut frame)) = reader.next_frame(end) {
        while let Some((number, _)) = frame.next_write() {
            numbers.push(number.0);
        }
    }
    numbers
}

#[test]
fn a_file_is_read_as_it_was_written_and_goes_on_after_a_power_loss() {
    for seed in 0..40 {
        let disk = SimulatedStorage::new(seed);
        let mut writer = ChangeWriter::create(&disk, header(), &Names::default()).unwrap();
        writer.append(SequenceNumber(110), &payload(100, 101..=105)).unwrap();
        writer.sync().unwrap();
        writer.append(SequenceNumber(120), &payload(110, 111..=120)).unwrap();
        writer.append(SequenceNumber(130), &payload(120, 121..=130)).unwrap();
        let (mut reader, names) = ChangeReader::open(&disk, DATABASE, FILE).unwrap();
        assert_eq!(names, Names::default());
        assert_eq!(*reader.header(), header());
        let all: Vec<u64> = (101..=105).chain(111..=130).collect();
        assert_eq!(numbers(&mut reader), all);
        assert_eq!((reader.position(), reader.through()), (writer.bytes(), SequenceNumber(130)));

        let disk = disk.power_cut(seed);
        let (mut reader, _) = ChangeReader::open(&disk, DATABASE, FILE).unwrap();
        let left = numbers(&mut reader);
        assert!(all.starts_with(&left) && left.len() >= 5, "seed {seed}: {left:?}");
        let through = reader.through();
        let mut writer = ChangeWriter::resume(&disk, &reader).unwrap();
        assert_eq!(writer.through(), through);
        writer.append(SequenceNumber(200), &payload(through.0, 190..=200)).unwrap();
        writer.sync().unwrap();
        let (mut reader, _) = ChangeReader::open(&disk.power_cut(seed), DATABASE, FILE).unwrap();
        let expected: Vec<u64> = left.into_iter().chain(190..=200).collect();
        assert_eq!(numbers(&mut reader), expected, "seed {seed}");
    }
}

#[test]
fn a_file_that_is_none_is_named() {
    let disk = SimulatedStorage::new(1);
    ChangeWriter::create(&disk, header(), &Names::default()).unwrap();
    let name = change_file_name(FILE);
    let message = |database, file| ChangeReader::open(&disk, database, file).unwrap_err().to_string();
    assert!(message(DatabaseId(1), FILE).contains("database id of a change file"));
    disk.link(&name, &change_file_name(FileNumber(8))).unwrap();
    assert!(message(DATABASE, FileNumber(8)).contains("number of a change file"));
    assert!(message(DATABASE, FileNumber(9)).contains("000009.changes"));
    disk.truncate(&name, 71);
    assert!(message(DATABASE, FILE).contains("length of a change file"));
    // A file that cannot be made leaves nothing.
    disk.inject("(sync nth=1) -> eio");
    let other = ChangeFileHeader { file: FileNumber(10), ..header() };
    assert!(matches!(ChangeWriter::create(&disk, other, &Names::default()), Err(Error::Io { .. })));
    assert!(!disk.list().unwrap().contains(&change_file_name(FileNumber(10))));
}

#[test]
fn writes_out_of_order_are_corruption() {
    let disk = SimulatedStorage::new(1);
    let mut writer = ChangeWriter::create(&disk, header(), &Names::default()).unwrap();
    writer.append(SequenceNumber(110), &payload(100, 101..=115)).unwrap();
    let (mut reader, _) = ChangeReader::open(&disk, DATABASE, FILE).unwrap();
    let start = reader.position();
    let error = reader.next_frame(writer.bytes()).unwrap_err();
    assert!(error.to_string().contains("writes in ascending order"), "{error}");
    assert_eq!((reader.position(), error.offset()), (start, Some(start)));
}

#[test]
fn names_follow_the_catalog() {
    let entry = |id: u32| CatalogEntry { id: KeyspaceId(id), ..CatalogEntry::default() }.encode();
    let mut names = Names::new([(KeyspaceId(1), "old".to_owned())]);
    let (one, two) = (entry(5), entry(6));
    let (users, emails) = (catalog::key_of("users"), catalog::key_of("emails"));
    names.follow(&body(&[put(KeyspaceId::CATALOG, &users, &one), put(KeyspaceId::CATALOG, &emails, &two)]));
    // No other keyspace has a meaning for the names, whatever its keys are.
    names.follow(&body(&[put(KeyspaceId(5), &catalog::key_of("none"), &entry(7))]));
    assert_eq!(Names::decode(&names.encode()).unwrap(), names);
    let get = |names: &Names, id: u32| names.get(KeyspaceId(id)).map(|name| name.to_string());
    let known = |names: &Names| [1, 5, 6, 7].map(|id| get(names, id).unwrap_or_default());
    assert_eq!(known(&names), ["old", "users", "emails", ""]);
    let drop = Operation { kind: Kind::Delete, keyspace: KeyspaceId::CATALOG, key: &users, value: b"" };
    names.follow(&body(&[drop]));
    assert_eq!(known(&names), ["old", "", "emails", ""]);
}
