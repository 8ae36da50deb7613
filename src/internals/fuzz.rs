//! One entry point for each format. It takes any bytes and panics only if a promise of that format is broken. Called by
//! the fuzz targets (`fuzz/`) and by a smoke test. Pure functions; any thread.
//!
//! Random bytes never pass a checksum, so most targets first put the right checksum over their input: the code behind
//! the checksum is what is fuzzed. If the format promises it, what decodes must encode to the same bytes, and
//! allocations must stay in proportion to the input.

mod change_file;

use super::filters::MapletPart;
use crate::filter::{maplet, quotient};
use crate::format::branch_footer::{self, BranchFooter};
use crate::format::branch_properties;
use crate::format::log_record::{BatchEncoder, HEADER_BYTES, Operation, Operations, RecordHeader, Salt, batch_length};
use crate::format::log_segment::{self, Mark, SECTOR_BYTES, SegmentHeader, decode_poison, encode_poison};
use crate::format::manifest_edit::{BranchMeta, BundleId, BundleImage, Identity, ManifestEdit, NodeId, NodeImage};
use crate::format::manifest_edit::{BufferedMeta, ItemRun, LevelsShape, ParentItems, RunChange, RunId};
use crate::format::manifest_header;
use crate::format::page::{self, Compression, PAGE_BYTES, PAGE_HEADER_BYTES, PageHeader, PageKind, PageOwner};
use crate::format::sorted_page::{ChildLocation, SortedPage, SortedPageBuilder, tag, tag_number};
use crate::format::stats_file::{StatsImage, TaskImage};
use crate::format::value_file::{self, ValueFileHeader, ValueReference};
use crate::format::zstd;
use crate::manifest::{ManifestState, replay};
use crate::util::checksum::checksum;
use crate::util::{DatabaseId, FileNumber, KeyspaceId, Kind, SequenceNumber};
use std::path::Path;

pub use change_file::change_file;

/// A format's entry point.
pub struct Target {
    /// Its name, which is also that of its fuzz target.
    pub name: &'static str,
    /// Takes any bytes.
    pub run: fn(&[u8]),
    /// Valid bytes as seeds.
    pub corpus: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 17] = [
    Target { name: "log_record", run: log_record, corpus: log_records },
    Target { name: "log_operations", run: log_operations, corpus: log_bodies },
    Target { name: "log_segment", run: log_segment, corpus: log_segments },
    Target { name: "manifest_header", run: manifest_header, corpus: manifest_headers },
    Target { name: "manifest_edit", run: manifest_edit, corpus: manifest_edits },
    Target { name: "manifest_replay", run: manifest_replay, corpus: manifest_edits },
    Target { name: "page", run: branch_page, corpus: pages },
    Target { name: "sorted_page", run: sorted_page, corpus: sorted_pages },
    Target { name: "branch_footer", run: branch_footer, corpus: footers },
    Target { name: "branch_properties", run: branch_properties, corpus: properties },
    Target { name: "filter_page", run: filter_page, corpus: filter_pages },
    Target { name: "maplet_page", run: maplet_page, corpus: maplet_pages },
    Target { name: "value_header", run: value_header, corpus: value_headers },
    Target { name: "value_reference", run: value_reference, corpus: value_references },
    Target { name: "poison", run: poison, corpus: poisons },
    Target { name: "stats_file", run: stats_file, corpus: stats_files },
    Target { name: "change_file", run: change_file::change_file, corpus: change_file::corpus },
];

const DATABASE: DatabaseId = DatabaseId(0x1122_3344_5566_7788);
const FILE: FileNumber = FileNumber(12);
const OWNER: PageOwner = PageOwner { database: DATABASE, file: FILE };

fn path() -> &'static Path {
    Path::new("fuzzed")
}

/// Up to `N` bytes of the input, filled with zeroes.
fn filled<const N: usize>(data: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let length = data.len().min(N);
    bytes[..length].copy_from_slice(&data[..length]);
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A record's header, and the body behind it.
pub fn log_record(data: &[u8]) {
    let (salt, position) = (Salt::new(DATABASE, FILE), 4096);
    let mut bytes = filled::<HEADER_BYTES>(data);
    let _ = RecordHeader::decode(&bytes, salt, position);
    put(&mut bytes, 22, &salt.tag().to_le_bytes());
    let sum = checksum(&bytes[4..], salt.at(position));
    put(&mut bytes, 0, &sum.to_le_bytes());
    let Some(header) = RecordHeader::decode(&bytes, salt, position) else { return };
    let words = header.encode(salt, position).map(u64::to_le_bytes);
    assert_eq!(words.as_flattened(), bytes, "a header that encodes to other bytes");
    let body = data.get(HEADER_BYTES..).unwrap_or_default();
    let _ = header.accepts(body, salt, position);
    if let Some(last) = header.last_number(body) {
        assert!(last >= header.number);
    }
}

/// The operations of a record: the first byte is the kind, the rest the body.
pub fn log_operations(data: &[u8]) {
    let Some((&kind, body)) = data.split_first() else { return };
    let Some(kind) = Kind::from_byte(kind) else { return };
    let Some(operations) = Operations::parse(kind, body) else { return };
    let operations: Vec<Operation<'_>> = operations.collect();
    let mut again = vec![0; body.len()];
    match (kind, &operations[..]) {
        (Kind::Void, _) => return,
        (Kind::Batch, operations) => {
            assert_eq!(batch_length(operations.iter().copied()), body.len());
            let mut encoder = BatchEncoder::new(operations.len() as u64, &mut again);
            operations.iter().for_each(|operation| encoder.push(*operation));
        }
        (_, [operation]) => assert_eq!(operation.encode(&mut again), body.len()),
        other => unreachable!("one operation in {other:?}"),
    }
    assert_eq!(again, body, "operations that encode to other bytes");
}

/// A segment's header page, marks included.
pub fn log_segment(data: &[u8]) {
    let mut page = Box::new(filled::<{ log_segment::PAGE_BYTES }>(data));
    let salt = Salt::new(DATABASE, FILE);
    let _ = Mark::newest(&page, salt);
    for sector in [1, 2] {
        let at = sector * SECTOR_BYTES;
        let sum = checksum(&page[at..at + 24], salt.at(at as u64));
        put(&mut page[..], at + 24, &sum.to_le_bytes());
    }
    if let Some(mark) = Mark::newest(&page, salt) {
        assert_eq!(page[mark.offset()..][..log_segment::MARK_BYTES], mark.encode(salt));
    }
    let mut sector = filled::<SECTOR_BYTES>(data);
    let _ = SegmentHeader::decode(&sector, path());
    put(&mut sector, 0, b"alluvlog\x01\0\0\0");
    let sum = checksum(&sector[16..], 1);
    put(&mut sector, 12, &sum.to_le_bytes());
    if let Ok(header) = SegmentHeader::decode(&sector, path()) {
        assert_eq!(header.segment_bytes, 4096 + header.chunks() * header.chunk_bytes);
        assert_eq!(SegmentHeader::decode(&header.encode(), path()).ok(), Some(header));
    }
}

/// The manifest's header page.
pub fn manifest_header(data: &[u8]) {
    let _ = manifest_header::decode_header(data, path());
    let mut page = filled::<{ manifest_header::HEADER_BYTES }>(data);
    put(&mut page, 0, &manifest_header::MAGIC);
    put(&mut page, 8, &1_u32.to_le_bytes());
    let end = page.len() - 4;
    let sum = checksum(&page[..end], 0);
    put(&mut page, end, &sum.to_le_bytes());
    if let Ok(identity) = manifest_header::decode_header(&page, path()) {
        assert_eq!(manifest_header::encode_header(&identity), page, "a header that encodes to other bytes");
    }
}

/// One edit of the manifest.
pub fn manifest_edit(data: &[u8]) {
    let _ = manifest_header::decode_record(data, 7);
    if let Ok(edit) = ManifestEdit::decode(data) {
        let mut again = Vec::new();
        edit.encode(&mut again);
        assert_eq!(again, data, "an edit that encodes to other bytes");
    }
}

/// A whole manifest: the input is a sequence of edits, each with its length in two bytes before it.
pub fn manifest_replay(data: &[u8]) {
    let _ = replay(data, path());
    let mut file = manifest_header::encode_header(&Identity { database: DATABASE });
    let salt = manifest_header::record_salt(DATABASE);
    let (mut rest, mut number) = (data, 1);
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let (edit, behind) = behind.split_at(behind.len().min(usize::from(u16::from_le_bytes(*length))));
        manifest_header::encode_record(number, salt, &mut file, |out| out.extend_from_slice(edit));
        (rest, number) = (behind, number + 1);
    }
    file.extend_from_slice(rest);
    let Ok(replayed) = replay(&file, path()) else { return };
    let _ = replayed.state.check();
    let mut again = ManifestState { identity: replayed.state.identity.clone(), ..ManifestState::default() };
    assert_eq!(again.apply(&replayed.state.snapshot_edit()), Ok(()), "a snapshot that cannot be applied");
    again.edits = replayed.state.edits;
    assert_eq!(again, replayed.state, "a snapshot that gives another state");
}

/// A page of a branch file, from its header on.
pub fn branch_page(data: &[u8]) {
    let _ = (page::peek(data), page::payload(data).len());
    let _ = page::check(data, 0, OWNER, path());
    let length = data.len().clamp(PAGE_HEADER_BYTES, 1 << 20).next_multiple_of(PAGE_BYTES);
    let mut bytes = data.to_vec();
    bytes.resize(length, 0);
    bytes[16..32].fill(0);
    let sum = checksum(&bytes[4..], OWNER.salt(0));
    put(&mut bytes, 0, &sum.to_le_bytes());
    let Ok(header) = page::check(&bytes, 0, OWNER, path()) else { return };
    let mut raw = vec![0; header.raw_len as usize];
    if page::decompress(&bytes, &header, &mut raw, path()).is_ok() {
        sorted_page(&raw);
    }
}

/// The payload of a leaf or an index page.
pub fn sorted_page(data: &[u8]) {
    let Some(page) = SortedPage::new(data).filter(|page| page.validate().is_ok()) else { return };
    let mut key = page.prefix().to_vec();
    for at in 0..page.count() {
        let parts = page.parts(at);
        page.complete_key(at, &parts, &mut key);
        let (value, repeats) = (page.value(&parts).len(), page.repeats_key(at));
        assert!(value <= data.len() && !(repeats && at == 0));
        let rank = page.rank(&key, tag_number(parts.tag), false);
        assert!(rank <= page.count() && rank <= page.rank(&key, tag_number(parts.tag), true));
        let _ = page.find(&key, SequenceNumber::MAX);
        if let Some(child) = ChildLocation::decode(page.packed(at)) {
            assert_eq!(child.encode(), page.packed(at));
        }
    }
}

/// A footer's payload.
pub fn branch_footer(data: &[u8]) {
    let mut page = vec![0; PAGE_BYTES];
    let length = data.len().min(branch_footer::FOOTER_BYTES);
    page[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + length].copy_from_slice(&data[..length]);
    put(&mut page, PAGE_HEADER_BYTES, &branch_footer::MAGIC);
    put(&mut page, PAGE_HEADER_BYTES + 16, &DATABASE.0.to_le_bytes());
    put(&mut page, PAGE_HEADER_BYTES + 24, &FILE.0.to_le_bytes());
    let stated = page[PAGE_HEADER_BYTES + 32..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let file_bytes = (stated % (1 << 40)).next_multiple_of(PAGE_BYTES as u64).max(PAGE_BYTES as u64);
    let footer_bytes = branch_footer::FOOTER_BYTES as u32;
    let header = PageHeader {
        kind: PageKind::Footer,
        compression: Compression::None,
        level: 0,
        stored_len: footer_bytes,
        raw_len: footer_bytes,
        offset: file_bytes - PAGE_BYTES as u64,
    };
    page::seal(&mut page, &header, OWNER);
    let Ok(footer) = BranchFooter::decode(&page, file_bytes, OWNER, path()) else { return };
    assert!(footer.root.end() <= footer.fingerprints_at && footer.properties_at < file_bytes);
    let mut again = vec![0; PAGE_BYTES];
    footer.encode(OWNER, &mut again);
    assert_eq!(BranchFooter::decode(&again, file_bytes, OWNER, path()).ok(), Some(footer));
}

/// The properties of a branch file.
pub fn branch_properties(data: &[u8]) {
    let Some((meta, comparator)) = branch_properties::decode(data, FILE, 40_960) else { return };
    let mut again = Vec::new();
    branch_properties::encode(&meta, &comparator, &mut again);
    assert_eq!(again, data, "properties that encode to other bytes");
}

/// A page of a filter: the first four bytes are a fingerprint, the rest the payload.
pub fn filter_page(data: &[u8]) {
    let Some((fingerprint, payload)) = data.split_first_chunk::<4>() else { return };
    for pages in [1, 3, u32::MAX] {
        let _ = quotient::may_contain(payload, u32::from_le_bytes(*fingerprint), pages);
    }
}

/// A fingerprint and a maplet's page, which is looked up and merged into another maplet.
pub fn maplet_page(data: &[u8]) {
    let Some((fingerprint, payload)) = data.split_first_chunk::<4>() else { return };
    let fingerprint = u32::from_le_bytes(*fingerprint);
    for pages in [1, 3, u32::MAX] {
        let _ = maplet::columns_of(payload, fingerprint, pages);
    }
    // An invalid page may give different results for a lookup and a merge, as long as both return.
    if let Some(merged) = MapletPart::of_page(payload).filter(|merged| merged.page(0) == payload) {
        let lost = maplet::columns_of(payload, fingerprint, 1).0 & !merged.columns(fingerprint);
        assert_eq!(lost, 0, "merging lost columns");
    }
}

/// A value file's header page and first block.
pub fn value_header(data: &[u8]) {
    let mut bytes = filled::<{ value_file::HEADER_BYTES }>(data);
    let length = u64::from_le_bytes(filled(data.get(32..).unwrap_or_default())) % (1 << 22);
    let own = ValueFileHeader { database: DATABASE, file: FILE, length };
    let _ = ValueFileHeader::decode(&bytes, DATABASE, FILE, path());
    own.encode(&mut bytes);
    assert_eq!(ValueFileHeader::decode(&bytes, DATABASE, FILE, path()).ok(), Some(own));
    if own.blocks() > 0 {
        let mut block = vec![0; own.block_bytes(0)];
        let filled = data.len().min(block.len());
        block[..filled].copy_from_slice(&data[..filled]);
        let _ = own.check_block(0, &block, path());
    }
}

/// A reference to a value file.
pub fn value_reference(data: &[u8]) {
    if let Some(reference) = ValueReference::decode(data) {
        assert_eq!(reference.encode(), data, "a reference that encodes to other bytes");
    }
}

/// The file that a failed sync leaves.
pub fn poison(data: &[u8]) {
    let _ = decode_poison(data);
    let reason = String::from_utf8_lossy(data.get(8..).unwrap_or_default());
    let epoch = u64::from_le_bytes(filled(data));
    assert_eq!(decode_poison(&encode_poison(epoch, &reason)), Some(epoch));
}

/// A writer's statistics for other processes.
pub fn stats_file(data: &[u8]) {
    let _ = StatsImage::decode(data);
    let mut file = StatsImage::default().encode();
    file.truncate(32);
    file.extend_from_slice(data);
    put(&mut file, 16, &(data.len() as u32).to_le_bytes());
    let sum = checksum(&file[16..], 0);
    put(&mut file, 12, &sum.to_le_bytes());
    if let Some(image) = StatsImage::decode(&file) {
        assert_eq!(image.encode(), file, "figures that encode to other bytes");
    }
}

fn log_records() -> Vec<Vec<u8>> {
    let header =
        |kind, flags| RecordHeader { body_length: 8, number: SequenceNumber(77), body_checksum: 5, kind, flags };
    let salt = Salt::new(DATABASE, FILE);
    let records = [header(Kind::Put, 0), header(Kind::Void, 1), header(Kind::Batch, 0)];
    records
        .iter()
        .map(|header| {
            let mut bytes = header.encode(salt, 4096).map(u64::to_le_bytes).as_flattened().to_vec();
            bytes.extend_from_slice(&99_u64.to_le_bytes());
            bytes
        })
        .collect()
}

fn log_bodies() -> Vec<Vec<u8>> {
    let operation = |kind, value| Operation { kind, keyspace: KeyspaceId::DEFAULT, key: b"key", value };
    let operations = [operation(Kind::Put, &b"value"[..]), operation(Kind::Delete, b"")];
    let mut batch = vec![0; 1 + batch_length(operations.iter().copied())];
    batch[0] = Kind::Batch as u8;
    let mut encoder = BatchEncoder::new(2, &mut batch[1..]);
    operations.iter().for_each(|operation| encoder.push(*operation));
    let mut bodies = vec![batch];
    for operation in operations {
        let mut body = vec![0; 1 + operation.encoded_length()];
        body[0] = operation.kind as u8;
        operation.encode(&mut body[1..]);
        bodies.push(body);
    }
    bodies
}

fn log_segments() -> Vec<Vec<u8>> {
    let header = SegmentHeader {
        database: DATABASE,
        number: FILE,
        epoch: 3,
        first: SequenceNumber(5),
        life: None,
        segment_bytes: 4096 + 65_536,
        chunk_bytes: 16_384,
        shadow: None,
    };
    let mark = Mark { counter: 1, synced_through: SequenceNumber(9), manifest_edit: 4 };
    let mut page = header.encode().to_vec();
    page.resize(log_segment::PAGE_BYTES, 0);
    put(&mut page, mark.offset(), &mark.encode(Salt::new(DATABASE, FILE)));
    vec![page]
}

fn manifest_headers() -> Vec<Vec<u8>> {
    vec![manifest_header::encode_header(&Identity { database: DATABASE })]
}

fn manifest_edits() -> Vec<Vec<u8>> {
    let root = NodeImage { id: NodeId(1), ..NodeImage::default() };
    let first = ManifestEdit { nodes: vec![root.clone()], root: Some(NodeId(1)), ..ManifestEdit::default() };
    let bundle = BundleImage { id: BundleId(1), compacted: true, branches: vec![FILE] };
    let second = ManifestEdit {
        branches_added: vec![meta()],
        nodes: vec![NodeImage { bundles: vec![bundle], ..root }],
        incorporated: Some(SequenceNumber(9)),
        next_file: Some(FileNumber(20)),
        ..ManifestEdit::default()
    };
    let encoded = |edit: &ManifestEdit| {
        let mut out = Vec::new();
        edit.encode(&mut out);
        out
    };
    let sequence = |edits: &[&ManifestEdit]| {
        let mut all = Vec::new();
        for edit in edits.iter().map(|edit| encoded(edit)) {
            all.extend_from_slice(&(edit.len() as u16).to_le_bytes());
            all.extend(edit);
        }
        all
    };
    let [levels, merge] = edits_of_levels();
    vec![
        encoded(&first),
        encoded(&second),
        sequence(&[&first, &second]),
        encoded(&levels),
        encoded(&merge),
        sequence(&[&levels, &merge]),
    ]
}

/// A branch in memory of two entries of a file; and the merge that consumes it.
fn edits_of_levels() -> [ManifestEdit; 2] {
    let shape = LevelsShape {
        size_ratio: 10,
        runs_per_level: 1,
        level0_runs: 4,
        merge_percent: 100,
        file_bytes: 1 << 20,
        base_bytes: 4 << 20,
        filter_bits: 9,
        filter_bits_above: 3,
        max_skip: 2,
        skip_runs: 6,
        buffer_bytes: u64::MAX,
    };
    let of = |file: u64| BranchMeta { file: FileNumber(file), entries: 2, distinct_keys: 2, ..BranchMeta::default() };
    let parents = vec![ParentItems { parent: FILE, runs: vec![ItemRun { skipped: 3, count: 2 }] }];
    let run = |dropped: &[u64], added: &[u64]| {
        let files = |numbers: &[u64]| numbers.iter().copied().map(FileNumber).collect();
        vec![RunChange { id: RunId(1), level: 6, dropped: files(dropped), added: files(added) }]
    };
    let levels = ManifestEdit {
        levels: Some(shape),
        branches_added: vec![meta()],
        buffered_added: vec![BufferedMeta { meta: of(13), parents }],
        runs: run(&[], &[13]),
        next_run: Some(RunId(2)),
        ..ManifestEdit::default()
    };
    let merge = ManifestEdit {
        branches_added: vec![of(14)],
        branches_dropped: vec![FILE],
        buffered_dropped: vec![FileNumber(13)],
        runs: run(&[13], &[14]),
        ..ManifestEdit::default()
    };
    [levels, merge]
}

fn meta() -> BranchMeta {
    BranchMeta {
        file: FILE,
        bytes: 40_960,
        key_min: b"\0\0\0\0a".to_vec(),
        key_max: b"\0\0\0\0z".to_vec(),
        number_min: SequenceNumber(1),
        number_max: SequenceNumber(9),
        entries: 9,
        tombstones: 2,
        distinct_keys: 8,
        range_tombstones: 1,
        open_ended: true,
        value_files: vec![FileNumber(3), FileNumber(7)],
    }
}

fn sorted_pages() -> Vec<Vec<u8>> {
    let mut builder = SortedPageBuilder::default();
    for at in 0..20_u64 {
        let key = format!("\0\0\0\0key{}{}", at / 2, "x".repeat(at as usize));
        let tag = tag(SequenceNumber(100 - at), Kind::Put);
        let fit = builder.fit(key.as_bytes(), tag, 5);
        builder.push(key.as_bytes(), tag, b"value", fit);
    }
    let mut payload = vec![0; builder.size()];
    builder.encode(&mut payload);
    vec![payload]
}

fn pages() -> Vec<Vec<u8>> {
    let raw = &sorted_pages()[0];
    let packed = lz4_flex::block::compress(raw);
    let mut framed = Vec::new();
    let length = zstd::Packer::default().pack(raw, &mut framed).unwrap_or_default();
    framed.truncate(length);
    [(Compression::None, raw), (Compression::Lz4, &packed), (Compression::Zstd, &framed)]
        .into_iter()
        .filter(|(_, stored)| !stored.is_empty())
        .map(|(compression, stored)| {
            let (stored_len, raw_len) = (stored.len() as u32, raw.len() as u32);
            let header = PageHeader { kind: PageKind::Leaf, compression, level: 0, stored_len, raw_len, offset: 0 };
            let mut bytes = vec![0; page::stored_bytes(stored.len())];
            put(&mut bytes, PAGE_HEADER_BYTES, stored);
            page::seal(&mut bytes, &header, OWNER);
            bytes
        })
        .collect()
}

fn footers() -> Vec<Vec<u8>> {
    let footer = BranchFooter {
        file_bytes: 5 * 4096,
        root: ChildLocation::decode(&[1, 0, 0, 0, 1, 0, 0, 0, 0, 0]).unwrap_or_default(),
        height: 1,
        leaves: 1,
        index_pages: 1,
        entries: 9,
        fingerprints: 8,
        fingerprints_at: 2 * 4096,
        filter_at: 3 * 4096,
        filter_pages: 0,
        range_tombstones_at: 3 * 4096,
        properties_at: 3 * 4096,
        properties_bytes: 60,
        common_number: None,
    };
    let ingested = BranchFooter { common_number: Some(SequenceNumber(7)), ..footer };
    let payload = |footer: BranchFooter| {
        let mut page = vec![0; PAGE_BYTES];
        footer.encode(OWNER, &mut page);
        page::payload(&page).to_vec()
    };
    vec![payload(footer), payload(ingested)]
}

fn properties() -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    branch_properties::encode(&meta(), branch_properties::BYTEWISE, &mut out);
    vec![out]
}

fn filter_pages() -> Vec<Vec<u8>> {
    let mut filter = quotient::FilterBuilder::new(quotient::REMAINDER_BITS);
    (0..500_u32).for_each(|at| filter.add(at.wrapping_mul(0x9e37_79b9)));
    filter.finish().into_iter().map(|page| [&[1, 2, 3, 4][..], &page].concat()).collect()
}

fn maplet_pages() -> Vec<Vec<u8>> {
    let fingerprints: Vec<u32> = (0..500_u32).map(|at| at.wrapping_mul(0x9e37_79b9)).collect();
    let page = MapletPart::build(&[fingerprints.clone(), fingerprints[..50].to_vec()]).page(0);
    vec![[&fingerprints[20].to_le_bytes()[..], &page].concat()]
}

fn value_headers() -> Vec<Vec<u8>> {
    let mut page = vec![0; value_file::HEADER_BYTES];
    ValueFileHeader { database: DATABASE, file: FILE, length: 300_000 }.encode(&mut page);
    vec![page]
}

fn value_references() -> Vec<Vec<u8>> {
    vec![ValueReference { file: FILE, length: 300_000, checksum: 77 }.encode().to_vec()]
}

fn poisons() -> Vec<Vec<u8>> {
    vec![encode_poison(3, "the disk died")]
}

fn stats_files() -> Vec<Vec<u8>> {
    let task = TaskImage { figures: [2, 4, 1, 10, 20, 30, 1500, 0], from: b"a".to_vec(), to: Some(b"z".to_vec()) };
    let image = StatsImage {
        process: 7,
        written_at: 1_700_000_000_000,
        counters: (0..35).map(|at| at * 1000).collect(),
        levels: vec![[1, 1, 2, 3, 4096, 50, 2, 2, 9, 6], [0, 2, 2, 3, 4096, 50, 3, 1, 0, 0]],
        tasks: vec![task.clone(), TaskImage { to: None, ..task }],
        failure: Some("the disk died".into()),
    };
    [image, StatsImage::default()].map(|image| image.encode()[32..].to_vec()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edits_of_levels_fit_a_new_store() {
        let mut state = ManifestState::default();
        for (edit, buffered) in edits_of_levels().iter().zip([1, 0]) {
            state.apply(edit).unwrap();
            state.check().unwrap();
            assert_eq!(state.buffered.len(), buffered);
        }
    }
}
