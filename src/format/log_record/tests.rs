//! Tests of log records.

use super::*;

fn salt() -> Salt {
    Salt::new(DatabaseId(1), FileNumber(2))
}

fn header(kind: Kind, body: &[u8], position: u64) -> RecordHeader {
    RecordHeader {
        body_length: body.len() as u32,
        number: SequenceNumber(77),
        body_checksum: checksum(body, salt().at(position)),
        kind,
        flags: 0,
    }
}

fn bytes_of(words: [u64; 3]) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    for (at, word) in words.into_iter().enumerate() {
        bytes[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

#[test]
fn headers_round_trip_only_at_their_place() {
    let whole = header(Kind::Put, b"body", 4096);
    let bytes = bytes_of(whole.encode(salt(), 4096));
    assert_eq!(RecordHeader::decode(&bytes, salt(), 4096), Some(whole));
    assert!(whole.accepts(b"body", salt(), 4096));
    assert!(!whole.accepts(b"bodx", salt(), 4096) && !whole.accepts(b"bod", salt(), 4096));
    assert_eq!(RecordHeader::decode(&bytes, salt(), 4104), None);
    assert_eq!(RecordHeader::decode(&bytes, Salt::new(DatabaseId(1), FileNumber(3)), 4096), None);
    assert_eq!(RecordHeader::decode(&bytes, Salt::new(DatabaseId(2), FileNumber(2)), 4096), None);
    for at in 0..HEADER_BYTES {
        for bit in 0..8 {
            let mut bad = bytes;
            bad[at] ^= 1 << bit;
            assert_eq!(RecordHeader::decode(&bad, salt(), 4096), None, "byte {at} bit {bit}");
        }
    }
    assert_eq!(RecordHeader::decode(&[0; HEADER_BYTES], salt(), 4096), None);
}

#[test]
fn a_header_without_its_first_word_does_not_parse() {
    let mut words = header(Kind::Put, b"body", 4096).encode(salt(), 4096);
    words[0] = 0;
    assert_eq!(RecordHeader::decode(&bytes_of(words), salt(), 4096), None);
}

#[test]
fn the_bytes_on_disk_never_change() {
    let words = header(Kind::Put, b"body", 4096).encode(salt(), 4096);
    assert_eq!(words[0] >> 32, 4);
    assert_eq!(words[1], 77);
    assert_eq!(words[2] >> 32 & 0xffff, 1);
    assert_eq!(words, [19_066_177_976, 77, 9_710_605_229_217_071_295]);
}

#[test]
fn invalid_fields_with_a_valid_checksum_are_rejected() {
    for number in [0, SequenceNumber::MAX.0, u64::MAX] {
        let bad = RecordHeader { number: SequenceNumber(number), ..header(Kind::Put, b"", 0) };
        assert_eq!(RecordHeader::decode(&bytes_of(bad.encode(salt(), 0)), salt(), 0), None);
    }
    for (kind, flags) in [(Kind::Put, 1), (Kind::Batch, 2), (Kind::Void, 3), (Kind::Void, 4)] {
        let bad = RecordHeader { flags, ..header(kind, b"", 0) };
        assert_eq!(RecordHeader::decode(&bytes_of(bad.encode(salt(), 0)), salt(), 0), None);
    }
}

#[test]
fn a_run_of_voids_names_its_last_number() {
    let mut run = header(Kind::Void, &90u64.to_le_bytes(), 0);
    assert_eq!(run.last_number(&90u64.to_le_bytes()), Some(SequenceNumber(77)));
    run.flags = FLAG_RUN;
    assert_eq!(run.last_number(&90u64.to_le_bytes()), Some(SequenceNumber(90)));
    assert_eq!(run.last_number(&76u64.to_le_bytes()), None);
    assert_eq!(run.last_number(&u64::MAX.to_le_bytes()), None);
    assert_eq!(run.last_number(&[1, 2]), None);
}

fn operations<'a>() -> Vec<Operation<'a>> {
    let operation = |kind, keyspace, key, value| Operation { kind, keyspace: KeyspaceId(keyspace), key, value };
    vec![
        operation(Kind::Put, 0, b"k", b"value"),
        operation(Kind::Put, 300, b"", b""),
        operation(Kind::Delete, 1, b"another key", b""),
        operation(Kind::ValueReference, u32::MAX, &[7; 200], &[9; 24]),
        operation(Kind::Put, 2, &[1; 130], &[2; 20_000]),
        operation(Kind::RangeDelete, 7, b"from", b"to"),
        operation(Kind::RangeDelete, 0, b"", b""),
    ]
}

#[test]
fn single_operations_round_trip_and_lengths_are_exact() {
    for operation in operations() {
        let mut body = vec![0; operation.encoded_length()];
        assert_eq!(operation.encode(&mut body), body.len());
        let decoded: Vec<_> = Operations::parse(operation.kind, &body).unwrap().collect();
        assert_eq!(decoded, [operation]);
        for length in 0..body.len() {
            assert!(Operations::parse(operation.kind, &body[..length]).is_none());
        }
        body.push(0);
        assert!(Operations::parse(operation.kind, &body).is_none());
    }
}

fn batch(operations: &[Operation<'_>]) -> Vec<u8> {
    let mut body = vec![0; batch_length(operations.iter().copied())];
    let mut encoder = BatchEncoder::new(operations.len() as u64, &mut body);
    for operation in operations {
        encoder.push(*operation);
    }
    assert_eq!(encoder.filled(), body.len());
    body
}

#[test]
fn batches_round_trip_and_garbage_never_panics() {
    let all = operations();
    for count in 0..=all.len() {
        let body = batch(&all[..count]);
        let parsed = Operations::parse(Kind::Batch, &body).unwrap();
        assert_eq!(parsed.size_hint(), (count, Some(count)));
        assert_eq!(parsed.collect::<Vec<_>>(), all[..count]);
    }
    let body = batch(&all[..4]);
    for length in 0..body.len() {
        assert!(Operations::parse(Kind::Batch, &body[..length]).is_none());
    }
    for at in 0..body.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bad = body.clone();
            bad[at] ^= flip;
            if let Some(parsed) = Operations::parse(Kind::Batch, &bad) {
                assert!(parsed.count() <= bad.len());
            }
        }
    }
    assert!(Operations::parse(Kind::Batch, &[0xff; 30]).is_none());
    // A range whose end is not after its start, and one of the last keyspace, which has no end.
    assert!(Operations::parse(Kind::RangeDelete, &[0, 1, b'b', 1, b'b']).is_none());
    assert!(Operations::parse(Kind::RangeDelete, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]).is_none());
    assert_eq!(Operations::parse(Kind::Void, b"anything").unwrap().count(), 0);
}

#[test]
fn the_end_of_a_range_delete_may_be_that_of_its_keyspace() {
    let ends = operations().into_iter().filter(|operation| operation.kind == Kind::RangeDelete);
    assert_eq!(ends.map(|operation| operation.range_end()).collect::<Vec<_>>(), [Some(&b"to"[..]), None]);
}
