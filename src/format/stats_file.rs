//! The file `STATS`: a snapshot of a writer's statistics, for other processes (see also `docs/format/stats.md`). Pure;
//! any thread.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic `ALVSTATS` |
//! | 8 | 4 | format version |
//! | 12 | 4 | checksum of everything after it, up to the payload's end, unsalted |
//! | 16 | 4 | length of the payload |
//! | 20 | 4 | process |
//! | 24 | 8 | time of writing, milliseconds since 1970 |
//! | 32 | length | payload |
//!
//! The file is overwritten in place. So bytes of an earlier, longer version may follow, and a concurrent reader may get
//! a mixture, which the checksum detects. Nothing depends on the file: invalid contents are `None`, not an error.
//!
//! The payload consists of varints: the number of counters and the counters, to which later versions append; the number
//! of levels, and six figures for each; the number of tasks, and a `TaskImage` for each; the length of the failure text
//! plus one, or 0 for none, and the text.

use super::FORMAT_VERSION;
use crate::util::checksum::checksum;
use crate::util::varint;

/// The first bytes.
pub const MAGIC: [u8; 8] = *b"ALVSTATS";
/// The longest file.
pub const FILE_BYTES_MAX: usize = HEADER_BYTES + PAYLOAD_BYTES_MAX;
/// Figures of each level.
pub const LEVEL_FIGURES: usize = 10;

const HEADER_BYTES: usize = 32;
const PAYLOAD_BYTES_MAX: usize = 32 << 10;
const COUNTERS_MAX: usize = 256;
const LEVELS_MAX: usize = 64;
const TASKS_MAX: usize = 64;
/// Longer keys are truncated.
const KEY_BYTES_MAX: usize = 64;
/// Longer failure texts are truncated.
const FAILURE_BYTES_MAX: usize = 1024;
const TASK_BYTES_MAX: usize = 2 * (KEY_BYTES_MAX + 2) + 9 * 10;

const _: () = assert!(
    10 * (COUNTERS_MAX + LEVELS_MAX * LEVEL_FIGURES + 4) + TASKS_MAX * TASK_BYTES_MAX + FAILURE_BYTES_MAX
        <= PAYLOAD_BYTES_MAX
);

/// A background task. The caller defines the meaning of the figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskImage {
    /// Kind, node number, node height plus one (0: none), bytes done, bytes in all, bytes written, milliseconds,
    /// whether it is paused.
    pub figures: [u64; 8],
    /// First key.
    pub from: Vec<u8>,
    /// First key after the range.
    pub to: Option<Vec<u8>>,
}

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatsImage {
    /// The writer's process id.
    pub process: u32,
    /// Milliseconds since 1970.
    pub written_at: u64,
    /// Counters. Later versions only append to them.
    pub counters: Vec<u64>,
    /// Levels, root first.
    pub levels: Vec<[u64; LEVEL_FIGURES]>,
    /// Running tasks.
    pub tasks: Vec<TaskImage>,
    /// Why the store no longer writes.
    pub failure: Option<String>,
}

impl StatsImage {
    /// Encodes the file. What is too long or too many is left out.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        write_list(&self.counters, COUNTERS_MAX, &mut out, |counter, out| varint::write(*counter, out));
        write_list(&self.levels, LEVELS_MAX, &mut out, |level, out| {
            level.iter().for_each(|figure| varint::write(*figure, out));
        });
        write_list(&self.tasks, TASKS_MAX, &mut out, TaskImage::encode);
        let failure = self.failure.as_deref().map(|text| &text[..text.floor_char_boundary(FAILURE_BYTES_MAX)]);
        write_optional(failure.map(str::as_bytes), &mut out);
        let length = (out.len() - HEADER_BYTES) as u32;
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[16..20].copy_from_slice(&length.to_le_bytes());
        out[20..24].copy_from_slice(&self.process.to_le_bytes());
        out[24..32].copy_from_slice(&self.written_at.to_le_bytes());
        let sum = checksum(&out[16..], 0);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes a file; `None` if it is invalid, of another version, or a mixture.
    pub fn decode(file: &[u8]) -> Option<Self> {
        let (header, rest) = file.split_first_chunk::<HEADER_BYTES>()?;
        let [_, _, version, sum, length, process, at @ ..] = header.as_chunks::<4>().0 else { return None };
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let known = header[..8] == MAGIC && u32::from_le_bytes(*version) == FORMAT_VERSION;
        if !known || length > rest.len() || checksum(&file[16..HEADER_BYTES + length], 0) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut payload = &rest[..length];
        let image = Self {
            process: u32::from_le_bytes(*process),
            written_at: u64::from_le_bytes(at.as_flattened().try_into().ok()?),
            counters: read_list(&mut payload, COUNTERS_MAX, varint::read)?,
            levels: read_list(&mut payload, LEVELS_MAX, read_figures)?,
            tasks: read_list(&mut payload, TASKS_MAX, TaskImage::decode)?,
            failure: match read_optional(&mut payload, FAILURE_BYTES_MAX)? {
                Some(text) => Some(String::from_utf8(text).ok()?),
                None => None,
            },
        };
        payload.is_empty().then_some(image)
    }
}

impl TaskImage {
    fn encode(&self, out: &mut Vec<u8>) {
        self.figures.iter().for_each(|figure| varint::write(*figure, out));
        varint::write_bytes(cut(&self.from), out);
        write_optional(self.to.as_deref().map(cut), out);
    }

    fn decode(payload: &mut &[u8]) -> Option<Self> {
        let figures = read_figures(payload)?;
        let from = varint::read_bytes(payload).filter(|key| key.len() <= KEY_BYTES_MAX)?.to_vec();
        Some(Self { figures, from, to: read_optional(payload, KEY_BYTES_MAX)? })
    }
}

fn cut(key: &[u8]) -> &[u8] {
    &key[..key.len().min(KEY_BYTES_MAX)]
}

fn write_list<T>(items: &[T], most: usize, out: &mut Vec<u8>, mut write: impl FnMut(&T, &mut Vec<u8>)) {
    let items = &items[..items.len().min(most)];
    varint::write(items.len() as u64, out);
    items.iter().for_each(|item| write(item, out));
}

fn read_list<T>(payload: &mut &[u8], most: usize, read: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = varint::read(payload).filter(|count| *count <= most as u64)?;
    (0..count).map(|_| read(payload)).collect()
}

fn read_figures<const N: usize>(payload: &mut &[u8]) -> Option<[u64; N]> {
    let mut figures = [0; N];
    for figure in &mut figures {
        *figure = varint::read(payload)?;
    }
    Some(figures)
}

/// The length plus one and the bytes, or 0.
fn write_optional(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    varint::write(bytes.map_or(0, |bytes| bytes.len() as u64 + 1), out);
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn read_optional(payload: &mut &[u8], most: usize) -> Option<Option<Vec<u8>>> {
    let Some(length) = varint::read(payload)?.checked_sub(1) else { return Some(None) };
    let (bytes, rest) = payload.split_at_checked(usize::try_from(length).ok().filter(|length| *length <= most)?)?;
    *payload = rest;
    Some(Some(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> StatsImage {
        let task = |to| TaskImage { figures: [1, 2, 3, u64::MAX, 5, 6, 7, 8], from: b"a".to_vec(), to };
        StatsImage {
            process: 77,
            written_at: 1_700_000_000_000,
            counters: vec![0, 1, u64::MAX],
            levels: vec![[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], [0; LEVEL_FIGURES]],
            tasks: vec![task(None), task(Some(Vec::new())), task(Some(b"z".to_vec()))],
            failure: Some("the disk died".into()),
        }
    }

    #[test]
    fn it_round_trips_whatever_follows() {
        for image in [image(), StatsImage::default()] {
            let mut bytes = image.encode();
            assert_eq!(StatsImage::decode(&bytes), Some(image.clone()));
            bytes.extend_from_slice(b"the rest of a longer one");
            assert_eq!(StatsImage::decode(&bytes), Some(image));
        }
    }

    #[test]
    fn no_part_and_no_mixture_is_taken() {
        let (bytes, other) = (image().encode(), StatsImage { process: 78, ..image() }.encode());
        for at in 0..bytes.len() {
            assert_eq!(StatsImage::decode(&bytes[..at]), None, "cut at {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert_eq!(StatsImage::decode(&flipped), None, "flipped at {at}");
        }
        let mixture = [&bytes[..20], &other[20..]].concat();
        assert_eq!(StatsImage::decode(&mixture), None);
    }

    #[test]
    fn its_size_is_bounded() {
        let task = TaskImage { figures: [u64::MAX; 8], from: vec![b'k'; 5000], to: Some(vec![b'l'; 5000]) };
        let image = StatsImage {
            counters: vec![u64::MAX; 1000],
            levels: vec![[u64::MAX; LEVEL_FIGURES]; 1000],
            tasks: vec![task; 1000],
            failure: Some("ä".repeat(5000)),
            ..StatsImage::default()
        };
        let bytes = image.encode();
        assert!(bytes.len() <= FILE_BYTES_MAX, "{} bytes", bytes.len());
        let found = StatsImage::decode(&bytes).unwrap();
        assert_eq!((found.tasks.len(), found.tasks[0].from.len()), (TASKS_MAX, KEY_BYTES_MAX));
        assert_eq!(found.failure.unwrap().len(), FAILURE_BYTES_MAX);
    }
}
