//! The operations of a run. Plain data: a run is a list of them, and what each writes follows from its place in the list.

use crate::support::Random;
use std::fmt;

/// How many keys a run uses.
pub const KEYS: u8 = 10;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Put(u8),
    /// A put that is on the disk when it returns.
    PutSync(u8),
    /// A put of some kilobytes: a few of them fill a Memtable and a log segment.
    Fill(u8),
    /// A put of a value that gets a file of its own.
    Large(u8),
    Delete(u8),
    /// Puts a key and the next, deletes the third, atomically.
    Batch(u8),
    Sync,
    Flush,
    Compact,
    /// One piece of background work.
    Work,
    /// The sync interval passes, and one piece of background work is done.
    Wait,
    /// Closes the store and opens it again.
    Reopen,
    /// Takes a snapshot that is checked at the end of the run.
    Snapshot,
    /// The process dies and the store is recovered.
    Kill,
    /// The power goes, by this seed, and the store is recovered.
    PowerCut(u64),
}

/// What a write does: keys and their new values.
pub type Changes = Vec<(String, Option<Vec<u8>>)>;

impl Step {
    /// What it writes as number `at` of a run; `None` where it is no write.
    pub fn changes(self, at: usize) -> Option<Changes> {
        let put = |key: u8, length: usize| {
            let mut value = format!("{at}:").into_bytes();
            value.resize(value.len() + length, key);
            (name(key), Some(value))
        };
        Some(match self {
            Self::Put(key) | Self::PutSync(key) => vec![put(key, usize::from(key) * 9)],
            Self::Fill(key) => vec![put(key, 1500 + usize::from(key) * 200)],
            Self::Large(key) => vec![put(key, 256 << 10)],
            Self::Delete(key) => vec![(name(key), None)],
            Self::Batch(key) => vec![put(key, 20), put(key + 1, 700), (name(key + 2), None)],
            _ => return None,
        })
    }
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
            Self::Batch(key) => write!(f, "batch {key}"),
            Self::Sync => f.write_str("sync"),
            Self::Flush => f.write_str("flush"),
            Self::Compact => f.write_str("compact"),
            Self::Work => f.write_str("work"),
            Self::Wait => f.write_str("wait"),
            Self::Reopen => f.write_str("reopen"),
            Self::Snapshot => f.write_str("snapshot"),
            Self::Kill => f.write_str("kill"),
            Self::PowerCut(seed) => write!(f, "power-cut {seed}"),
        }
    }
}

/// The list as `read` takes it.
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
        "batch" => Step::Batch(key),
        "sync" => Step::Sync,
        "flush" => Step::Flush,
        "compact" => Step::Compact,
        "work" => Step::Work,
        "wait" => Step::Wait,
        "reopen" => Step::Reopen,
        "snapshot" => Step::Snapshot,
        "kill" => Step::Kill,
        "power-cut" => Step::PowerCut(number),
        _ => panic!("{text:?} is no operation of a run"),
    }
}

/// A run of so many operations, drawn from a seed.
pub fn draw(random: &mut Random, length: usize) -> Vec<Step> {
    let draw_one = |random: &mut Random| {
        let key = random.below(u64::from(KEYS)) as u8;
        match random.below(1000) {
            0..300 => Step::Put(key),
            300..440 => Step::Fill(key),
            440..540 => Step::Delete(key),
            540..640 => Step::Batch(key),
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
    };
    (0..length).map(|_| draw_one(random)).collect()
}

#[test]
fn runs_read_back_as_they_print() {
    let steps = draw(&mut Random(1), 300);
    assert_eq!(read(&print(&steps)), steps);
}
