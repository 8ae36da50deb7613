//! Tests of the bytes of manifest edits.

use super::testing::{Random, any_edit};
use super::*;

fn encoded(edit: &ManifestEdit) -> Vec<u8> {
    let mut out = Vec::new();
    edit.encode(&mut out);
    out
}

#[test]
fn random_edits_round_trip() {
    for seed in 0..2000 {
        let edit = any_edit(&mut Random(seed));
        assert_eq!(ManifestEdit::decode(&encoded(&edit)), Ok(edit), "seed {seed}");
    }
    assert_eq!(ManifestEdit::decode(&[]), Ok(ManifestEdit::default()));
    assert!(encoded(&ManifestEdit::default()).is_empty());
}

/// Each edit has one encoding: whatever decodes equals its own encoding, so damage cannot hide in a second form.
#[test]
fn damaged_edits_are_errors_or_other_edits_but_never_second_encodings() {
    let (mut errors, mut others) = (0, 0);
    for seed in 0..60 {
        let bytes = encoded(&any_edit(&mut Random(seed)));
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= flip;
                match ManifestEdit::decode(&bad) {
                    Ok(other) => {
                        assert_eq!(encoded(&other), bad, "seed {seed}, byte {at}");
                        others += 1;
                    }
                    Err(malformed) => {
                        assert!(malformed.at <= bad.len(), "seed {seed}, byte {at}: {malformed:?}");
                        errors += 1;
                    }
                }
            }
        }
    }
    assert!(errors > 1000 && others > 1000, "{errors} errors, {others} others");
}

#[test]
fn truncated_edits_are_errors_or_lack_whole_fields() {
    for seed in 0..60 {
        let bytes = encoded(&any_edit(&mut Random(seed)));
        for length in 0..bytes.len() {
            if let Ok(shorter) = ManifestEdit::decode(&bytes[..length]) {
                assert_eq!(encoded(&shorter), bytes[..length], "seed {seed}, length {length}");
            }
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random(7);
    for _ in 0..20_000 {
        let mut bytes = random.bytes();
        bytes.extend(random.bytes());
        if let Some(first) = bytes.first_mut() {
            *first = *first % 29 + 1;
        }
        let _ = ManifestEdit::decode(&bytes);
    }
}

#[test]
fn unknown_repeated_and_unordered_fields_are_named() {
    let unknown = ManifestEdit::decode(&[29, 0]).unwrap_err();
    assert_eq!((unknown.at, unknown.found.as_str()), (0, "tag 29"));
    assert!(unknown.expected.contains("this build knows"));
    let zero = ManifestEdit::decode(&[0]).unwrap_err();
    assert_eq!(zero.at, 0);
    let twice = ManifestEdit::decode(&[5, 1, 5, 2]).unwrap_err();
    assert_eq!((twice.at, twice.found.as_str()), (2, "tag 5"));
    let unordered = ManifestEdit::decode(&[6, 1, 5, 2]).unwrap_err();
    assert_eq!((unordered.at, unordered.found.as_str()), (2, "tag 5"));
}

/// A list that claims 2^60 items in a few bytes is rejected before memory is reserved for it.
#[test]
fn false_counts_allocate_no_memory() {
    let mut body = vec![1, 0, 0, 0];
    crate::util::varint::write(1 << 60, &mut body);
    let mut bytes = vec![3];
    crate::util::varint::write_bytes(&body, &mut bytes);
    let malformed = ManifestEdit::decode(&bytes).unwrap_err();
    assert!(malformed.expected.contains("list"), "{malformed:?}");
}

/// The encoding of format version 1. It must never change.
#[test]
fn the_encoding_never_changes() {
    let edit = ManifestEdit {
        branches_added: vec![BranchMeta {
            file: FileNumber(300),
            bytes: 8192,
            key_min: b"a".to_vec(),
            key_max: b"bc".to_vec(),
            number_min: SequenceNumber(5),
            number_max: SequenceNumber(9),
            entries: 4,
            tombstones: 1,
            distinct_keys: 3,
            range_tombstones: 6,
            open_ended: true,
            value_files: vec![FileNumber(2)],
        }],
        branches_dropped: vec![FileNumber(7)],
        nodes: vec![NodeImage {
            id: NodeId(1),
            height: 1,
            lower: vec![],
            upper: Some(b"z".to_vec()),
            pivots: vec![PivotImage { lower: vec![], child: NodeId(2), first_active: 1 }],
            bundles: vec![BundleImage { id: BundleId(6), compacted: true, branches: vec![FileNumber(300)] }],
            shares: vec![vec![ShareImage { branch: FileNumber(300), bytes: 200 }]],
        }],
        nodes_dropped: vec![NodeId(4)],
        root: Some(NodeId(1)),
        incorporated: Some(SequenceNumber(9)),
        log_recovered_earlier: vec![],
        log_recovered: Some(LogRecovered {
            epoch: 2,
            cut: SequenceNumber(10),
            skipped: vec![(SequenceNumber(3), SequenceNumber(4))],
            next_number: SequenceNumber(12),
        }),
        log_epochs_from: Some(1),
        keyspaces: vec![KeyspaceRecord {
            id: KeyspaceId(0),
            name: "d".into(),
            comparator: "b".into(),
            ..Default::default()
        }],
        next_file: Some(FileNumber(301)),
        next_node: Some(NodeId(5)),
        next_bundle: Some(BundleId(7)),
        log_files_from: Some(FileNumber(6)),
        log_segments_added: vec![FileNumber(301), FileNumber(302)],
        log_segments_dropped: vec![FileNumber(299)],
        log_synced: Some(SequenceNumber(11)),
        maplets_added: vec![MapletMeta {
            file: FileNumber(303),
            pages: 130,
            lower: b"c".to_vec(),
            upper: Some(b"e".to_vec()),
            columns: vec![MapletColumn { entries: 5, branches: vec![FileNumber(300), FileNumber(7)] }],
        }],
        maplets_dropped: vec![FileNumber(8)],
        branch_bytes: Some(1 << 20),
        levels: Some(LevelsShape {
            size_ratio: 10,
            runs_per_level: 1,
            level0_runs: 4,
            merge_percent: 100,
            file_bytes: 300,
            base_bytes: 301,
            filter_bits: 9,
            filter_bits_above: 4,
            max_skip: 2,
            skip_runs: 5,
            buffer_bytes: 302,
        }),
        runs: vec![
            RunChange { id: RunId(2), level: 1, dropped: vec![FileNumber(7)], added: vec![FileNumber(300)] },
            RunChange { id: RunId(3), level: 0, dropped: vec![], added: vec![FileNumber(8), FileNumber(9)] },
        ],
        next_run: Some(RunId(4)),
        user_bytes: Some(300),
        quiet_bytes: Some(5),
        buffered_added: vec![BufferedMeta {
            meta: BranchMeta { file: FileNumber(10), entries: 3, ..BranchMeta::default() },
            parents: vec![ParentItems {
                parent: FileNumber(6),
                runs: vec![ItemRun { skipped: 4, count: 2 }, ItemRun { skipped: 1, count: 1 }],
            }],
        }],
        buffered_dropped: vec![FileNumber(5)],
        ingested: Some(SequenceNumber(12)),
    };
    let expected: &[&[u8]] = &[
        &[1, 18, 0xac, 2, 0x80, 0x40, 1, b'a', 2, b'b', b'c', 5, 9, 4, 1, 3, 6, 1, 1, 2],
        &[2, 7],
        &[3, 22, 1, 1, 0, 1, 1, b'z', 1, 0, 2, 1, 1, 6, 1, 1, 0xac, 2, 1, 1, 0xac, 2, 0xc8, 1],
        &[4, 4, 5, 1, 6, 9],
        &[8, 6, 2, 10, 1, 3, 4, 12],
        &[9, 1, 10, 5, 0, 1, b'd', 1, b'b', 11, 0xad, 2, 12, 5, 13, 7],
        &[14, 6],
        &[15, 0xad, 2, 15, 0xae, 2, 16, 0xab, 2],
        &[17, 11],
        &[18, 15, 0xaf, 2, 0x82, 1, 1, b'c', 1, 1, b'e', 1, 5, 2, 0xac, 2, 7],
        &[19, 8],
        &[20, 0x80, 0x80, 0x40],
        &[21, 14, 10, 1, 4, 100, 0xac, 2, 0xad, 2, 9, 4, 2, 5, 0xae, 2],
        &[22, 7, 2, 1, 1, 7, 1, 0xac, 2, 22, 6, 3, 0, 0, 2, 8, 9],
        &[23, 4, 24, 0xac, 2, 25, 5],
        &[26, 20, 12, 10, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 1, 6, 2, 4, 2, 1, 1, 27, 5, 28, 12],
    ];
    assert_eq!(encoded(&edit), expected.concat());
}
