//! The operations of a run. Plain data: a run is a list of operations, and the place in the list determines what each
//! writes.

use crate::support::Random;
use std::fmt;

/// The number of keys.
pub const KEYS: u8 = 40;
/// The number of keys that `Clear` deletes, and of those in a range.
const SOME: u8 = 8;

/// The kind of a random run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Few keys, so that every part of the store has older versions of the written key.
    FewKeys,
    /// Enough keys and background work for a tree of small nodes.
    Trees,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Put(u8),
    /// A put with `Durability::Sync`.
    PutSync(u8),
    /// A put of some kilobytes: a few such puts fill a Memtable and a log segment.
    Fill(u8),
    /// A put of a value that gets its own file.
    Large(u8),
    Delete(u8),
    /// Merges an operand into a key, which replaces its value.
    Merge(u8),
    /// Reads a key and puts it, in one update.
    Update(u8),
    /// Puts a key and the next one and deletes the third, atomically.
    Batch(u8),
    /// Reads a key, scans it and the keys after it, then writes the same as `Batch`.
    Transaction(u8),
    /// Deletes a key and the keys after it, atomically, so that leaves become empty.
    Clear(u8),
    /// Deletes the same keys as a range.
    DeleteRange(u8),
    /// Deletes the same keys as a range and puts the first one, atomically.
    Replace(u8),
    Sync,
    Flush,
    Compact,
    /// Compacts the range of a key and the keys after it.
    CompactRange(u8),
    /// Optimizes that range.
    Optimize(u8),
    /// One task of background work.
    Work,
    /// The sync interval passes, and one background task runs.
    Wait,
    /// Nobody writes for a while, and background work rewrites data for readers.
    Quiet,
    /// Closes the store and opens it again.
    Reopen,
    /// The disk is full, background work frees what space it can, and then there is space again.
    Full,
    /// Takes a snapshot that is checked at the end of the run.
    Snapshot,
    /// The process dies and the store is recovered.
    Kill,
    /// The power is cut, with this seed, and the store is recovered.
    PowerCut(u64),
}

/// What a write does: keys and their new values.
pub type Changes = Vec<(String, Option<Vec<u8>>)>;

impl Step {
    /// The changes of the operation as number `at` of a run; `None` if it is not a write.
    pub fn changes(self, at: usize) -> Option<Changes> {
        let put = |key: u8, length: usize| {
            let mut value = format!("{at}:").into_bytes();
            value.resize(value.len() + length, key);
            (name(key), Some(value))
        };
        Some(match self {
            Self::Put(key) | Self::PutSync(key) | Self::Update(key) | Self::Merge(key) => {
                vec![put(key, usize::from(key) * 9)]
            }
            Self::Fill(key) => vec![put(key, 1500 + usize::from(key % 10) * 200)],
            Self::Large(key) => vec![put(key, 256 << 10)],
            Self::Delete(key) => vec![(name(key), None)],
            Self::Batch(key) | Self::Transaction(key) => vec![put(key, 20), put(key + 1, 700), (name(key + 2), None)],
            Self::Clear(key) | Self::DeleteRange(key) => cleared(key),
            Self::Replace(key) => {
                let others = cleared(key).into_iter().filter(|(cleared, _)| *cleared != name(key));
                [put(key, 20)].into_iter().chain(others).collect()
            }
            _ => return None,
        })
    }

    /// A key and the keys after it.
    pub fn range_from(key: u8) -> std::ops::Range<String> {
        let first = key % KEYS;
        format!("key{first:02}")..format!("key{:02}", first + SOME)
    }
}

/// The deletes of a key and of those after it.
fn cleared(key: u8) -> Changes {
    let first = key % KEYS;
    (first..KEYS.min(first + SOME)).map(|key| (name(key), None)).collect()
}

/// The key's name in the store.
pub fn name(key: u8) -> String {
    format!("key{:02}", key % KEYS)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(key) => write!(f, "put {key}"),
            Self::PutSync(key) => write!(f, "put-sync {key}"),
            Self::Fill(key) => write!(f, "fill {key}"),
            Self::Large(key) => write!(f, "large {key}"),
            Self::Delete(key) => write!(f, "delete {key}"),
            Self::Merge(key) => write!(f, "merge {key}"),
            Self::Update(key) => write!(f, "update {key}"),
            Self::Transaction(key) => write!(f, "transaction {key}"),
            Self::Batch(key) => write!(f, "batch {key}"),
            Self::Clear(key) => write!(f, "clear {key}"),
            Self::DeleteRange(key) => write!(f, "delete-range {key}"),
            Self::Replace(key) => write!(f, "replace {key}"),
            Self::CompactRange(key) => write!(f, "compact-range {key}"),
            Self::Optimize(key) => write!(f, "optimize {key}"),
            Self::Sync => f.write_str("sync"),
            Self::Flush => f.write_str("flush"),
            Self::Compact => f.write_str("compact"),
            Self::Work => f.write_str("work"),
            Self::Wait => f.write_str("wait"),
            Self::Quiet => f.write_str("quiet"),
            Self::Full => f.write_str("full"),
            Self::Reopen => f.write_str("reopen"),
            Self::Snapshot => f.write_str("snapshot"),
            Self::Kill => f.write_str("kill"),
            Self::PowerCut(seed) => write!(f, "power-cut {seed}"),
        }
    }
}

/// The list in the form that `read` takes.
pub fn print(steps: &[Step]) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A printed list.
pub fn read(text: &str) -> Vec<Step> {
    text.split(';').map(str::trim).filter(|text| !text.is_empty()).map(read_one).collect()
}

fn read_one(text: &str) -> Step {
    let (word, number) = text.split_once(' ').unwrap_or((text, "0"));
    let number: u64 = number.parse().unwrap_or_else(|_| panic!("no number in {text:?}"));
    let key = number as u8;
    match word {
        "put" => Step::Put(key),
        "put-sync" => Step::PutSync(key),
        "fill" => Step::Fill(key),
        "large" => Step::Large(key),
        "delete" => Step::Delete(key),
        "merge" => Step::Merge(key),
        "update" => Step::Update(key),
        "transaction" => Step::Transaction(key),
        "batch" => Step::Batch(key),
        "clear" => Step::Clear(key),
        "delete-range" => Step::DeleteRange(key),
        "replace" => Step::Replace(key),
        "compact-range" => Step::CompactRange(key),
        "optimize" => Step::Optimize(key),
        "sync" => Step::Sync,
        "flush" => Step::Flush,
        "compact" => Step::Compact,
        "work" => Step::Work,
        "wait" => Step::Wait,
        "quiet" => Step::Quiet,
        "full" => Step::Full,
        "reopen" => Step::Reopen,
        "snapshot" => Step::Snapshot,
        "kill" => Step::Kill,
        "power-cut" => Step::PowerCut(number),
        _ => panic!("{text:?} is not an operation"),
    }
}

/// A random run of `length` operations.
pub fn draw(random: &mut Random, length: usize, kind: Kind) -> Vec<Step> {
    let draw_one = match kind {
        Kind::FewKeys => draw_for_few_keys,
        Kind::Trees => draw_for_trees,
    };
    (0..length).map(|_| draw_one(random)).collect()
}

fn draw_for_few_keys(random: &mut Random) -> Step {
    let key = random.below(10) as u8;
    match random.below(1000) {
        0..200 => Step::Put(key),
        200..265 => Step::Merge(key),
        265..300 => Step::Update(key),
        300..440 => Step::Fill(key),
        440..540 => Step::Delete(key),
        540..600 => Step::Batch(key),
        600..640 => Step::Transaction(key),
        640..660 => Step::PutSync(key),
        660..672 => Step::Large(key),
        672..722 => Step::Sync,
        722..752 => Step::Flush,
        752..767 => Step::Compact,
        767..877 => Step::Work,
        877..907 => Step::Wait,
        907..927 => Step::Reopen,
        927..947 => Step::Snapshot,
        947..972 => Step::Kill,
        _ => Step::PowerCut(random.next() % 1000),
    }
}

fn draw_for_trees(random: &mut Random) -> Step {
    let key = random.below(u64::from(KEYS)) as u8;
    match random.below(1000) {
        0..50 => Step::Put(key),
        50..80 => Step::Merge(key),
        80..100 => Step::Update(key),
        100..410 => Step::Fill(key),
        410..440 => Step::Delete(key),
        440..480 => Step::Clear(key),
        480..510 => Step::DeleteRange(key),
        510..530 => Step::Replace(key),
        530..560 => Step::Batch(key),
        560..580 => Step::Transaction(key),
        580..590 => Step::PutSync(key),
        590..595 => Step::Large(key),
        595..620 => Step::Sync,
        620..650 => Step::Flush,
        650..675 => Step::Compact,
        675..705 => Step::CompactRange(key),
        705..730 => Step::Optimize(key),
        730..890 => Step::Work,
        890..895 => Step::Wait,
        895..905 => Step::Quiet,
        905..910 => Step::Full,
        910..925 => Step::Reopen,
        925..955 => Step::Snapshot,
        955..975 => Step::Kill,
        _ => Step::PowerCut(random.next() % 1000),
    }
}

#[test]
fn runs_read_back_as_they_print() {
    for kind in [Kind::FewKeys, Kind::Trees] {
        let steps = draw(&mut Random(1), 300, kind);
        assert_eq!(read(&print(&steps)), steps);
    }
}
