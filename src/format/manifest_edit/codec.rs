//! Encoding and decoding of a manifest edit. The table is in the parent module.

use super::{BranchMeta, BundleId, BundleImage, KeyspaceRecord, LogRecovered, ManifestEdit, NodeId, NodeImage};
use super::{BufferedMeta, ItemRun, LevelsShape, ParentItems, RunChange, RunId};
use super::{FileNumber, KeyspaceId, Malformed, MapletColumn, MapletMeta, PivotImage, SequenceNumber, ShareImage};
use crate::util::varint;

/// The tag bytes.
mod tag {
    pub const BRANCH_ADDED: u8 = 1;
    pub const BRANCH_DROPPED: u8 = 2;
    pub const NODE: u8 = 3;
    pub const NODE_DROPPED: u8 = 4;
    pub const ROOT: u8 = 5;
    pub const INCORPORATED: u8 = 6;
    pub const LOG_RECOVERED_EARLIER: u8 = 7;
    pub const LOG_RECOVERED: u8 = 8;
    pub const LOG_EPOCHS_FROM: u8 = 9;
    pub const KEYSPACE: u8 = 10;
    pub const NEXT_FILE: u8 = 11;
    pub const NEXT_NODE: u8 = 12;
    pub const NEXT_BUNDLE: u8 = 13;
    pub const LOG_FILES_FROM: u8 = 14;
    pub const LOG_SEGMENT_ADDED: u8 = 15;
    pub const LOG_SEGMENT_DROPPED: u8 = 16;
    pub const LOG_SYNCED: u8 = 17;
    pub const MAPLET_ADDED: u8 = 18;
    pub const MAPLET_DROPPED: u8 = 19;
    pub const BRANCH_BYTES: u8 = 20;
    pub const LEVELS: u8 = 21;
    pub const RUN: u8 = 22;
    pub const NEXT_RUN: u8 = 23;
    pub const USER_BYTES: u8 = 24;
    pub const QUIET_BYTES: u8 = 25;
    pub const BUFFERED_ADDED: u8 = 26;
    pub const BUFFERED_DROPPED: u8 = 27;
    pub const INGESTED: u8 = 28;

    /// Whether a field may occur more than once.
    pub fn repeats(tag: u8) -> bool {
        matches!(tag, BRANCH_ADDED | BRANCH_DROPPED | NODE | NODE_DROPPED | LOG_RECOVERED_EARLIER | KEYSPACE)
            || matches!(tag, LOG_SEGMENT_ADDED | LOG_SEGMENT_DROPPED | MAPLET_ADDED | MAPLET_DROPPED | RUN)
            || matches!(tag, BUFFERED_ADDED | BUFFERED_DROPPED)
    }
}

type Decoded<T> = Result<T, Malformed>;

impl ManifestEdit {
    /// Appends the edit's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        for branch in &self.branches_added {
            sized(tag::BRANCH_ADDED, &mut body, out, |body| encode_branch(branch, body));
        }
        for file in &self.branches_dropped {
            number(tag::BRANCH_DROPPED, file.0, out);
        }
        for node in &self.nodes {
            sized(tag::NODE, &mut body, out, |body| encode_node(node, body));
        }
        for node in &self.nodes_dropped {
            number(tag::NODE_DROPPED, node.0, out);
        }
        optional(tag::ROOT, self.root.map(|node| node.0), out);
        optional(tag::INCORPORATED, self.incorporated.map(|number| number.0), out);
        for recovered in &self.log_recovered_earlier {
            sized(tag::LOG_RECOVERED_EARLIER, &mut body, out, |body| encode_recovered(recovered, body));
        }
        if let Some(recovered) = &self.log_recovered {
            sized(tag::LOG_RECOVERED, &mut body, out, |body| encode_recovered(recovered, body));
        }
        optional(tag::LOG_EPOCHS_FROM, self.log_epochs_from, out);
        for keyspace in &self.keyspaces {
            sized(tag::KEYSPACE, &mut body, out, |body| encode_keyspace(keyspace, body));
        }
        optional(tag::NEXT_FILE, self.next_file.map(|file| file.0), out);
        optional(tag::NEXT_NODE, self.next_node.map(|node| node.0), out);
        optional(tag::NEXT_BUNDLE, self.next_bundle.map(|bundle| bundle.0), out);
        optional(tag::LOG_FILES_FROM, self.log_files_from.map(|file| file.0), out);
        for segment in &self.log_segments_added {
            number(tag::LOG_SEGMENT_ADDED, segment.0, out);
        }
        for segment in &self.log_segments_dropped {
            number(tag::LOG_SEGMENT_DROPPED, segment.0, out);
        }
        optional(tag::LOG_SYNCED, self.log_synced.map(|number| number.0), out);
        for maplet in &self.maplets_added {
            sized(tag::MAPLET_ADDED, &mut body, out, |body| encode_maplet(maplet, body));
        }
        for file in &self.maplets_dropped {
            number(tag::MAPLET_DROPPED, file.0, out);
        }
        optional(tag::BRANCH_BYTES, self.branch_bytes, out);
        if let Some(levels) = &self.levels {
            sized(tag::LEVELS, &mut body, out, |body| encode_levels(levels, body));
        }
        for run in &self.runs {
            sized(tag::RUN, &mut body, out, |body| encode_run(run, body));
        }
        optional(tag::NEXT_RUN, self.next_run.map(|run| run.0), out);
        optional(tag::USER_BYTES, self.user_bytes, out);
        optional(tag::QUIET_BYTES, self.quiet_bytes, out);
        for buffered in &self.buffered_added {
            sized(tag::BUFFERED_ADDED, &mut body, out, |body| encode_buffered(buffered, body));
        }
        for file in &self.buffered_dropped {
            number(tag::BUFFERED_DROPPED, file.0, out);
        }
        optional(tag::INGESTED, self.ingested.map(|number| number.0), out);
    }

    /// Decodes an edit that must use all of `payload`.
    pub fn decode(payload: &[u8]) -> Decoded<Self> {
        let mut reader = Reader { rest: payload, end: payload.len() };
        let mut edit = Self::default();
        let mut last = 0;
        while !reader.rest.is_empty() {
            let at = reader.at();
            let tag = reader.byte()?;
            if tag < last || (tag == last && !tag::repeats(tag)) {
                return Err(Malformed {
                    at,
                    expected: "a field tag that may follow the last one",
                    found: format!("tag {tag}"),
                });
            }
            last = tag;
            edit.decode_field(tag, at, &mut reader)?;
        }
        Ok(edit)
    }

    fn decode_field(&mut self, tag: u8, at: usize, reader: &mut Reader<'_>) -> Decoded<()> {
        match tag {
            tag::BRANCH_ADDED => self.branches_added.push(reader.sized(decode_branch)?),
            tag::BRANCH_DROPPED => self.branches_dropped.push(FileNumber(reader.number()?)),
            tag::NODE => self.nodes.push(reader.sized(decode_node)?),
            tag::NODE_DROPPED => self.nodes_dropped.push(NodeId(reader.number()?)),
            tag::ROOT => self.root = Some(NodeId(reader.number()?)),
            tag::INCORPORATED => self.incorporated = Some(SequenceNumber(reader.number()?)),
            tag::LOG_RECOVERED_EARLIER => self.log_recovered_earlier.push(reader.sized(decode_recovered)?),
            tag::LOG_RECOVERED => self.log_recovered = Some(reader.sized(decode_recovered)?),
            tag::LOG_EPOCHS_FROM => self.log_epochs_from = Some(reader.number()?),
            tag::KEYSPACE => self.keyspaces.push(reader.sized(decode_keyspace)?),
            tag::NEXT_FILE => self.next_file = Some(FileNumber(reader.number()?)),
            tag::NEXT_NODE => self.next_node = Some(NodeId(reader.number()?)),
            tag::NEXT_BUNDLE => self.next_bundle = Some(BundleId(reader.number()?)),
            tag::LOG_FILES_FROM => self.log_files_from = Some(FileNumber(reader.number()?)),
            tag::LOG_SEGMENT_ADDED => self.log_segments_added.push(FileNumber(reader.number()?)),
            tag::LOG_SEGMENT_DROPPED => self.log_segments_dropped.push(FileNumber(reader.number()?)),
            tag::MAPLET_ADDED => self.maplets_added.push(reader.sized(decode_maplet)?),
            tag::MAPLET_DROPPED => self.maplets_dropped.push(FileNumber(reader.number()?)),
            tag::BRANCH_BYTES => self.branch_bytes = Some(reader.number()?),
            tag::LEVELS => self.levels = Some(reader.sized(decode_levels)?),
            tag::RUN => self.runs.push(reader.sized(decode_run)?),
            tag::NEXT_RUN => self.next_run = Some(RunId(reader.number()?)),
            tag::USER_BYTES => self.user_bytes = Some(reader.number()?),
            tag::QUIET_BYTES => self.quiet_bytes = Some(reader.number()?),
            tag::BUFFERED_ADDED => self.buffered_added.push(reader.sized(decode_buffered)?),
            tag::BUFFERED_DROPPED => self.buffered_dropped.push(FileNumber(reader.number()?)),
            tag::INGESTED => self.ingested = Some(SequenceNumber(reader.number()?)),
            tag::LOG_SYNCED => self.log_synced = Some(SequenceNumber(reader.number()?)),
            _ => {
                return Err(Malformed {
                    at,
                    expected: "a field tag that this build knows",
                    found: format!("tag {tag}"),
                });
            }
        }
        Ok(())
    }
}

/// A field with the length of its body before it. `body` is scratch space.
fn sized(tag: u8, body: &mut Vec<u8>, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    body.clear();
    encode(body);
    out.push(tag);
    varint::write_bytes(body, out);
}

fn number(tag: u8, value: u64, out: &mut Vec<u8>) {
    out.push(tag);
    varint::write(value, out);
}

fn optional(tag: u8, value: Option<u64>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        number(tag, value, out);
    }
}

fn encode_list<T>(items: &[T], out: &mut Vec<u8>, encode: impl Fn(&T, &mut Vec<u8>)) {
    varint::write(items.len() as u64, out);
    for item in items {
        encode(item, out);
    }
}

fn encode_file(file: &FileNumber, out: &mut Vec<u8>) {
    varint::write(file.0, out);
}

fn encode_branch(branch: &BranchMeta, out: &mut Vec<u8>) {
    varint::write(branch.file.0, out);
    varint::write(branch.bytes, out);
    varint::write_bytes(&branch.key_min, out);
    varint::write_bytes(&branch.key_max, out);
    varint::write(branch.number_min.0, out);
    varint::write(branch.number_max.0, out);
    varint::write(branch.entries, out);
    varint::write(branch.tombstones, out);
    varint::write(branch.distinct_keys, out);
    varint::write(branch.range_tombstones, out);
    out.push(u8::from(branch.open_ended));
    encode_list(&branch.value_files, out, encode_file);
}

fn decode_branch(reader: &mut Reader<'_>) -> Decoded<BranchMeta> {
    Ok(BranchMeta {
        file: FileNumber(reader.number()?),
        bytes: reader.number()?,
        key_min: reader.bytes()?.to_vec(),
        key_max: reader.bytes()?.to_vec(),
        number_min: SequenceNumber(reader.number()?),
        number_max: SequenceNumber(reader.number()?),
        entries: reader.number()?,
        tombstones: reader.number()?,
        distinct_keys: reader.number()?,
        range_tombstones: reader.number()?,
        open_ended: reader.flag()?,
        value_files: reader.list(|reader| Ok(FileNumber(reader.number()?)))?,
    })
}

fn encode_maplet(maplet: &MapletMeta, out: &mut Vec<u8>) {
    varint::write(maplet.file.0, out);
    varint::write(u64::from(maplet.pages), out);
    varint::write_bytes(&maplet.lower, out);
    out.push(u8::from(maplet.upper.is_some()));
    if let Some(upper) = &maplet.upper {
        varint::write_bytes(upper, out);
    }
    encode_list(&maplet.columns, out, |column, out| {
        varint::write(column.entries, out);
        encode_list(&column.branches, out, encode_file);
    });
}

fn decode_maplet(reader: &mut Reader<'_>) -> Decoded<MapletMeta> {
    Ok(MapletMeta {
        file: FileNumber(reader.number()?),
        pages: reader.number_u32()?,
        lower: reader.bytes()?.to_vec(),
        upper: if reader.flag()? { Some(reader.bytes()?.to_vec()) } else { None },
        columns: reader.list(|reader| {
            let entries = reader.number()?;
            Ok(MapletColumn { entries, branches: reader.list(|reader| Ok(FileNumber(reader.number()?)))? })
        })?,
    })
}

fn encode_node(node: &NodeImage, out: &mut Vec<u8>) {
    varint::write(node.id.0, out);
    varint::write(u64::from(node.height), out);
    varint::write_bytes(&node.lower, out);
    out.push(u8::from(node.upper.is_some()));
    if let Some(upper) = &node.upper {
        varint::write_bytes(upper, out);
    }
    encode_list(&node.pivots, out, |pivot, out| {
        varint::write_bytes(&pivot.lower, out);
        varint::write(pivot.child.0, out);
        varint::write(u64::from(pivot.first_active), out);
    });
    encode_list(&node.bundles, out, |bundle, out| {
        varint::write(bundle.id.0, out);
        out.push(u8::from(bundle.compacted));
        encode_list(&bundle.branches, out, encode_file);
    });
    encode_list(&node.shares, out, |slot, out| {
        encode_list(slot, out, |share, out| {
            varint::write(share.branch.0, out);
            varint::write(share.bytes, out);
        });
    });
}

fn decode_node(reader: &mut Reader<'_>) -> Decoded<NodeImage> {
    Ok(NodeImage {
        id: NodeId(reader.number()?),
        height: reader.number_u32()?,
        lower: reader.bytes()?.to_vec(),
        upper: if reader.flag()? { Some(reader.bytes()?.to_vec()) } else { None },
        pivots: reader.list(|reader| {
            Ok(PivotImage {
                lower: reader.bytes()?.to_vec(),
                child: NodeId(reader.number()?),
                first_active: reader.number_u32()?,
            })
        })?,
        bundles: reader.list(|reader| {
            Ok(BundleImage {
                id: BundleId(reader.number()?),
                compacted: reader.flag()?,
                branches: reader.list(|reader| Ok(FileNumber(reader.number()?)))?,
            })
        })?,
        shares: reader.list(|reader| {
            reader.list(|reader| Ok(ShareImage { branch: FileNumber(reader.number()?), bytes: reader.number()? }))
        })?,
    })
}

fn encode_levels(levels: &LevelsShape, out: &mut Vec<u8>) {
    for number in [levels.size_ratio, levels.runs_per_level, levels.level0_runs, levels.merge_percent] {
        varint::write(u64::from(number), out);
    }
    varint::write(levels.file_bytes, out);
    varint::write(levels.base_bytes, out);
    for number in [levels.filter_bits, levels.filter_bits_above, levels.max_skip, levels.skip_runs] {
        varint::write(number.into(), out);
    }
    varint::write(levels.buffer_bytes, out);
}

fn decode_levels(reader: &mut Reader<'_>) -> Decoded<LevelsShape> {
    Ok(LevelsShape {
        size_ratio: reader.number_u32()?,
        runs_per_level: reader.number_u32()?,
        level0_runs: reader.number_u32()?,
        merge_percent: reader.number_u32()?,
        file_bytes: reader.number()?,
        base_bytes: reader.number()?,
        filter_bits: reader.number_u32()?,
        filter_bits_above: reader.number_u32()?,
        max_skip: reader.number_u32()?,
        skip_runs: reader.number_u32()?,
        buffer_bytes: reader.number()?,
    })
}

fn encode_run(run: &RunChange, out: &mut Vec<u8>) {
    varint::write(run.id.0, out);
    varint::write(u64::from(run.level), out);
    encode_list(&run.dropped, out, encode_file);
    encode_list(&run.added, out, encode_file);
}

fn decode_run(reader: &mut Reader<'_>) -> Decoded<RunChange> {
    Ok(RunChange {
        id: RunId(reader.number()?),
        level: reader.number_u32()?,
        dropped: reader.list(|reader| Ok(FileNumber(reader.number()?)))?,
        added: reader.list(|reader| Ok(FileNumber(reader.number()?)))?,
    })
}

/// See `BufferedMeta::parents_bytes`.
pub(super) fn parents_bytes(buffered: &BufferedMeta) -> u64 {
    let mut bytes = Vec::new();
    encode_parents(buffered, &mut bytes);
    bytes.len() as u64
}

fn encode_buffered(buffered: &BufferedMeta, out: &mut Vec<u8>) {
    let mut branch = Vec::new();
    encode_branch(&buffered.meta, &mut branch);
    varint::write_bytes(&branch, out);
    encode_parents(buffered, out);
}

fn encode_parents(buffered: &BufferedMeta, out: &mut Vec<u8>) {
    encode_list(&buffered.parents, out, |items, out| {
        varint::write(items.parent.0, out);
        encode_list(&items.runs, out, |run, out| {
            varint::write(run.skipped, out);
            varint::write(run.count, out);
        });
    });
}

fn decode_buffered(reader: &mut Reader<'_>) -> Decoded<BufferedMeta> {
    Ok(BufferedMeta {
        meta: reader.sized(decode_branch)?,
        parents: reader.list(|reader| {
            Ok(ParentItems {
                parent: FileNumber(reader.number()?),
                runs: reader.list(|reader| Ok(ItemRun { skipped: reader.number()?, count: reader.number()? }))?,
            })
        })?,
    })
}

fn encode_recovered(recovered: &LogRecovered, out: &mut Vec<u8>) {
    varint::write(recovered.epoch, out);
    varint::write(recovered.cut.0, out);
    encode_list(&recovered.skipped, out, |(first, last), out| {
        varint::write(first.0, out);
        varint::write(last.0, out);
    });
    varint::write(recovered.next_number.0, out);
}

fn decode_recovered(reader: &mut Reader<'_>) -> Decoded<LogRecovered> {
    Ok(LogRecovered {
        epoch: reader.number()?,
        cut: SequenceNumber(reader.number()?),
        skipped: reader.list(|reader| Ok((SequenceNumber(reader.number()?), SequenceNumber(reader.number()?))))?,
        next_number: SequenceNumber(reader.number()?),
    })
}

fn encode_keyspace(keyspace: &KeyspaceRecord, out: &mut Vec<u8>) {
    varint::write(u64::from(keyspace.id.0), out);
    varint::write_bytes(keyspace.name.as_bytes(), out);
    varint::write_bytes(keyspace.comparator.as_bytes(), out);
    if !keyspace.merge_operator.is_empty() {
        varint::write_bytes(keyspace.merge_operator.as_bytes(), out);
    }
}

fn decode_keyspace(reader: &mut Reader<'_>) -> Decoded<KeyspaceRecord> {
    let id = KeyspaceId(reader.number_u32()?);
    let (name, comparator) = (reader.text()?, reader.text()?);
    let merge_operator = if reader.rest.is_empty() { String::new() } else { reader.name()? };
    Ok(KeyspaceRecord { id, name, comparator, merge_operator })
}

/// A position in a payload.
struct Reader<'a> {
    rest: &'a [u8],
    /// Where `rest` ends, as an offset in the payload.
    end: usize,
}

impl<'a> Reader<'a> {
    fn at(&self) -> usize {
        self.end - self.rest.len()
    }

    fn malformed(&self, expected: &'static str) -> Malformed {
        let shown = &self.rest[..self.rest.len().min(8)];
        Malformed { at: self.at(), expected, found: format!("{shown:02x?} and {} bytes in all", self.rest.len()) }
    }

    fn byte(&mut self) -> Decoded<u8> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| self.malformed("a byte"))?;
        self.rest = rest;
        Ok(*first)
    }

    fn flag(&mut self) -> Decoded<bool> {
        match self.rest.first() {
            Some(byte @ 0..=1) => {
                self.rest = &self.rest[1..];
                Ok(*byte == 1)
            }
            _ => Err(self.malformed("a flag of 0 or 1")),
        }
    }

    fn number(&mut self) -> Decoded<u64> {
        // The varint reader leaves `rest` unchanged on failure, so the position is that of the number.
        varint::read(&mut self.rest).ok_or_else(|| self.malformed("a number"))
    }

    fn number_u32(&mut self) -> Decoded<u32> {
        let mut rest = self.rest;
        let value = varint::read(&mut rest).and_then(|value| u32::try_from(value).ok());
        let value = value.ok_or_else(|| self.malformed("a number of 32 bits"))?;
        self.rest = rest;
        Ok(value)
    }

    fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let mut rest = self.rest;
        let bytes = varint::read_bytes(&mut rest).ok_or_else(|| self.malformed("a byte string"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Decoded<String> {
        let at = self.at();
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|error| Malformed { at, expected: "UTF-8", found: error.to_string() })
    }

    /// A text that is not empty.
    fn name(&mut self) -> Decoded<String> {
        let at = self.at();
        let text = self.text()?;
        if text.is_empty() {
            return Err(Malformed { at, expected: "a name", found: "nothing".to_owned() });
        }
        Ok(text)
    }

    /// A list. It grows item by item, so a false count cannot allocate memory.
    fn list<T>(&mut self, decode: impl Fn(&mut Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        let count = self.number()?;
        if count > self.rest.len() as u64 {
            return Err(self.malformed("a list no longer than the bytes left"));
        }
        (0..count).map(|_| decode(self)).collect()
    }

    /// A body with its length before it. `decode` must use all of it.
    fn sized<T>(&mut self, decode: impl FnOnce(&mut Self) -> Decoded<T>) -> Decoded<T> {
        let body = self.bytes()?;
        let mut reader = Reader { rest: body, end: self.at() };
        let value = decode(&mut reader)?;
        if reader.rest.is_empty() { Ok(value) } else { Err(reader.malformed("the end of the field")) }
    }
}
