//! Round trips, golden bytes, and changed bytes.

use super::*;

fn header() -> ChangeFileHeader {
    ChangeFileHeader {
        database: DatabaseId(0x0123_4567_89ab_cdef),
        file: FileNumber(42),
        after: SequenceNumber(1000),
        date: 1_700_000_000_000,
        retained_bytes: 1 << 30,
        retained_millis: 86_400_000,
        ingest: Some(SequenceNumber(2000)),
    }
}

fn path() -> &'static Path {
    Path::new("000042.changes")
}

#[test]
fn a_header_is_what_was_encoded_or_an_error() {
    let bytes = header().encode();
    assert_eq!(ChangeFileHeader::decode(&bytes, path()).unwrap(), header());
    assert_eq!(&bytes[..8], b"ALLUVCHG");
    assert_eq!(bytes[16..32], [0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 42, 0, 0, 0, 0, 0, 0, 0]);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        let error = ChangeFileHeader::decode(&changed, path()).unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "bit {bit}: {error}");
    }
    let mut newer = bytes;
    newer[8] = 2;
    let sum = checksum(&newer[16..], 2);
    newer[12..16].copy_from_slice(&sum.to_le_bytes());
    assert!(matches!(ChangeFileHeader::decode(&newer, path()), Err(Error::NewerFormat { found: 2, .. })));
}

#[test]
fn a_frame_is_valid_in_its_own_place_only() {
    let mut payload = Vec::new();
    push_write(SequenceNumber(1000), SequenceNumber(1001), b"one", &mut payload);
    push_write(SequenceNumber(1001), SequenceNumber(1300), b"", &mut payload);
    assert_eq!(payload, b"\x01\x03one\xab\x02\x00");
    let through = SequenceNumber(1400);
    let front = encode_frame(&header(), 72, FrameKind::Writes, through, &payload);
    let frame = FrameHeader::decode(&front).unwrap();
    assert_eq!((frame.kind, frame.length, frame.through), (FrameKind::Writes, payload.len() as u64, through));
    assert_eq!(frame.end(72), Some(72 + 24 + payload.len() as u64));
    assert!(frame.accepts(&payload, &header(), 72));
    assert!(!frame.accepts(&payload, &header(), 73));
    assert!(!frame.accepts(&payload, &ChangeFileHeader { file: FileNumber(43), ..header() }, 72));
    assert!(!frame.accepts(&payload, &ChangeFileHeader { database: DatabaseId(1), ..header() }, 72));
    assert!(!frame.accepts(&payload[1..], &header(), 72));
    for bit in 0..front.len() * 8 {
        let mut changed = front;
        changed[bit / 8] ^= 1 << (bit % 8);
        let accepted = FrameHeader::decode(&changed).is_some_and(|frame| frame.accepts(&payload, &header(), 72));
        assert!(!accepted, "bit {bit}");
    }
    for bit in 0..payload.len() * 8 {
        let mut changed = payload.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!frame.accepts(&changed, &header(), 72), "bit {bit}");
    }
}

#[test]
fn writes_and_names_are_read_as_they_were_written() {
    let mut payload = Vec::new();
    push_write(SequenceNumber(7), SequenceNumber(9), b"body", &mut payload);
    let mut rest = &payload[..];
    assert_eq!(next_write(SequenceNumber(7), &mut rest), Some((SequenceNumber(9), &b"body"[..])));
    assert!(rest.is_empty());
    for cut in 0..payload.len() {
        assert_eq!(next_write(SequenceNumber(7), &mut &payload[..cut]), None, "cut at {cut}");
    }
    // A number that is not greater than the one before, and one above all numbers.
    assert_eq!(next_write(SequenceNumber(7), &mut &b"\x00\x00"[..]), None);
    assert_eq!(next_write(SequenceNumber(u64::MAX), &mut &b"\x01\x00"[..]), None);
    let names = [(KeyspaceId(1), "users"), (KeyspaceId(300), "Flüsse")];
    let payload = encode_names(names.into_iter());
    assert_eq!(decode_names(&payload).unwrap(), names);
    for cut in [1, 3, payload.len() - 1] {
        assert_eq!(decode_names(&payload[..cut]), None, "cut at {cut}");
    }
    assert_eq!(decode_names(b""), Some(Vec::new()));
}
