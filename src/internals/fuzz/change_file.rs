//! Change files: the header, the front of a frame, and the payloads of both kinds.

use super::{DATABASE, FILE, filled, path, put};
use crate::format::change_file::{
    ChangeFileHeader, FRAME_BYTES, FrameHeader, FrameKind, HEADER_BYTES, decode_names, encode_frame, encode_names,
    next_write, push_write,
};
use crate::format::log_record::Operations;
use crate::util::checksum::checksum;
use crate::util::{KeyspaceId, Kind, SequenceNumber};

fn header() -> ChangeFileHeader {
    ChangeFileHeader {
        database: DATABASE,
        file: FILE,
        after: SequenceNumber(70),
        date: 1_700_000_000_000,
        retained_bytes: 1 << 30,
        retained_millis: 0,
        ingest: None,
    }
}

/// See the module.
pub fn change_file(data: &[u8]) {
    let mut head = filled::<HEADER_BYTES>(data);
    let _ = ChangeFileHeader::decode(&head, path());
    put(&mut head, 0, b"ALLUVCHG\x01\0\0\0");
    let sum = checksum(&head[16..], 1);
    put(&mut head, 12, &sum.to_le_bytes());
    if let Ok(header) = ChangeFileHeader::decode(&head, path()) {
        assert_eq!(header.encode(), head, "a header that encodes to other bytes");
    }
    let _ = FrameHeader::decode(&filled::<FRAME_BYTES>(data)).map(|frame| frame.end(u64::MAX / 2));
    let front = encode_frame(&header(), 96, FrameKind::Writes, SequenceNumber(99), data);
    let frame = FrameHeader::decode(&front);
    assert!(frame.is_some_and(|frame| frame.accepts(data, &header(), 96) && !frame.accepts(data, &header(), 97)));

    if let Some(names) = decode_names(data) {
        let again = encode_names(names.iter().copied());
        assert_eq!(decode_names(&again).as_ref(), Some(&names), "names that encode to others");
    }
    let (mut left, mut before, mut again) = (data, SequenceNumber(70), Vec::new());
    while let Some((number, body)) = next_write(before, &mut left) {
        push_write(before, number, body, &mut again);
        before = number;
        if let Some(operations) = Operations::parse(Kind::Batch, body) {
            let mut whole = Vec::new();
            operations.append_as_batch(&mut whole);
            assert!(whole == body, "a batch that encodes to other bytes");
        }
    }
}

/// Seeds.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    let mut writes = Vec::new();
    push_write(SequenceNumber(70), SequenceNumber(71), b"\x01\x01\0\x01a\x01b", &mut writes);
    push_write(SequenceNumber(71), SequenceNumber(75), b"\0", &mut writes);
    let names = encode_names([(KeyspaceId(3), "users"), (KeyspaceId(4), "words")].into_iter());
    vec![header().encode().to_vec(), writes, names]
}
