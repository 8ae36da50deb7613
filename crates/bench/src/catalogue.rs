//! The named workloads: those of `db_bench`, YCSB, and the papers.

use crate::choice::Choice;
use crate::engine::Direction;
use crate::keys::Order;
use crate::settings::Settings;
use crate::workload::{Arrival, Beside, Job, Mix, Workload};
use std::fmt;

/// FloDB's skew (section 5.3 of its paper): 98% of the operations on 2% of the keys.
pub const FLODB_SKEW: Choice = Choice::Hot { operations_percent: 98, keys_percent: 2, block: 1 };

/// Every name, with a description.
pub const NAMES: [(&str, &str); 26] = [
    ("fillseq", "load the keys in key order"),
    ("fillrandom", "load the keys in random order, each once"),
    (
        "fillnear",
        "load keys in key order among random ones; fillnear:90 has 90% in order [default: --sequential-percent]",
    ),
    ("overwrite", "put loaded keys, drawn uniformly"),
    ("readrandom", "get loaded keys, drawn uniformly"),
    ("readmissing", "get absent keys, spread like the loaded ones"),
    ("readseq", "scan all pairs in key order; an operation is a pair"),
    ("readreverse", "the same from the last key to the first"),
    ("rest", "write nothing until the engine has finished its work for quiet times"),
    ("seekrandom", "seek a loaded key, then --seek-nexts pairs from there"),
    ("readwhilewriting", "readrandom, while one more thread overwrites"),
    ("seekwhilewriting", "seekrandom, while one more thread overwrites"),
    ("writewhilescanning", "overwrite, while one more thread scans all pairs; processor time is per put and pair"),
    ("updaterandom", "read, modify and write loaded keys, drawn uniformly"),
    ("putifabsent", "put if the key is absent: half new keys, half loaded ones, drawn uniformly"),
    ("increment", "add 1 to loaded keys, drawn uniformly; their values are counters: --value-size 8"),
    ("incrementskewed", "increment, with YCSB's zipfian distribution"),
    ("counters", "50% get, 50% increment, keys as in incrementskewed"),
    ("load", "YCSB: the same as fillrandom"),
    ("a", "YCSB: 50% get, 50% put"),
    ("b", "YCSB: 95% get, 5% put"),
    ("c", "YCSB: get"),
    ("d", "YCSB: 95% get of the latest keys, 5% insert"),
    ("e", "YCSB: 95% scan of 1 to 100 pairs, 5% insert"),
    ("f", "YCSB: 50% get, 50% read-modify-write"),
    ("skewed", "FloDB: 50% get, 50% put, 98% of them on 2% of the keys"),
];

/// A name that no workload has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWorkload {
    /// The name.
    pub name: String,
    /// A similar name.
    pub nearest: Option<&'static str>,
    /// The text after `fillnear:`, if that is wrong.
    pub share: Option<String>,
}

impl fmt::Display for UnknownWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(share) = &self.share {
            return write!(f, "{}: the share of keys in order must be 0 to 100 percent, not {share:?}", self.name);
        }
        write!(f, "there is no workload {:?}", self.name)?;
        if let Some(nearest) = self.nearest {
            write!(f, "; did you mean {nearest:?}?")?;
        }
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        write!(f, "\nknown: {}", names.join(", "))
    }
}

impl std::error::Error for UnknownWorkload {}

/// The workload with this name. `settings` has the pairs of scans, YCSB's distribution and the sequential share.
pub fn named(name: &str, settings: &Settings) -> Result<Workload, UnknownWorkload> {
    let fill = |order| Job::Fill { order, arrival: Arrival::Ascending };
    let uniform = |mix: Mix| Job::Mix(Mix { choice: Some(Choice::Uniform), ..mix });
    let ycsb = |mix: Mix, choice| Job::Mix(Mix { choice: Some(settings.distribution.unwrap_or(choice)), ..mix });
    let nothing = Mix::default;
    let pairs = settings.seek_nexts.saturating_add(1);
    let seeks = Mix { scan: 1, scan_pairs: (pairs, pairs), ..nothing() };
    let job = match name {
        "fillseq" => fill(Order::Sequential),
        "fillrandom" | "load" => fill(Order::Random),
        "fillnear" => fill(Order::Near { sequential_percent: settings.sequential_percent }),
        "overwrite" => uniform(Mix { overwrite: 1, ..nothing() }),
        "readrandom" => uniform(Mix { read: 1, ..nothing() }),
        "readmissing" => uniform(Mix { miss: 1, ..nothing() }),
        "readseq" => Job::FullScan(Direction::Forward),
        "readreverse" => Job::FullScan(Direction::Backward),
        "rest" => Job::Rest,
        "seekrandom" => uniform(seeks),
        "seekwhilewriting" => uniform(Mix { beside: Some(Beside::Writer), ..seeks }),
        "readwhilewriting" => uniform(Mix { read: 1, beside: Some(Beside::Writer), ..nothing() }),
        "writewhilescanning" => uniform(Mix { overwrite: 1, beside: Some(Beside::Scanner), ..nothing() }),
        "updaterandom" => uniform(Mix { modify: 1, ..nothing() }),
        "putifabsent" => uniform(Mix { if_absent_new: 1, if_absent_old: 1, ..nothing() }),
        "increment" => uniform(Mix { increment: 1, ..nothing() }),
        "counters" => Job::Mix(Mix { read: 50, increment: 50, choice: Some(Choice::Zipfian), ..nothing() }),
        "incrementskewed" => Job::Mix(Mix { increment: 1, choice: Some(Choice::Zipfian), ..nothing() }),
        "a" => ycsb(Mix { read: 50, overwrite: 50, ..nothing() }, Choice::Zipfian),
        "b" => ycsb(Mix { read: 95, overwrite: 5, ..nothing() }, Choice::Zipfian),
        "c" => ycsb(Mix { read: 1, ..nothing() }, Choice::Zipfian),
        "d" => ycsb(Mix { read: 95, insert: 5, ..nothing() }, Choice::Latest),
        "e" => ycsb(Mix { scan: 95, insert: 5, scan_pairs: (1, 100), ..nothing() }, Choice::Zipfian),
        "f" => ycsb(Mix { read: 50, modify: 50, ..nothing() }, Choice::Zipfian),
        "skewed" => Job::Mix(Mix { read: 50, overwrite: 50, choice: Some(FLODB_SKEW), ..nothing() }),
        other => fill(near(other)?),
    };
    Ok(Workload { name: name.to_string(), job })
}

/// The workloads of a comma-separated list.
pub fn list(names: &str, settings: &Settings) -> Result<Vec<Workload>, UnknownWorkload> {
    names.split(',').map(|name| named(name.trim(), settings)).collect()
}

/// The order in `fillnear:90`.
fn near(name: &str) -> Result<Order, UnknownWorkload> {
    let share = name.strip_prefix("fillnear:").ok_or_else(|| unknown(name))?;
    match share.parse() {
        Ok(sequential_percent @ 0..=100) => Ok(Order::Near { sequential_percent }),
        _ => Err(UnknownWorkload { name: name.to_string(), nearest: None, share: Some(share.to_string()) }),
    }
}

fn unknown(name: &str) -> UnknownWorkload {
    let distances = NAMES.iter().map(|(known, _)| (distance(name, known), *known));
    // A name is similar if at least half of its letters are right.
    let nearest = distances.min().filter(|(distance, known)| distance * 2 <= known.len()).map(|(_, known)| known);
    UnknownWorkload { name: name.to_string(), nearest, share: None }
}

/// The number of letters to change, add or remove (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().take(64).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for column in 0..to.len() {
            let changed = diagonal + usize::from(letter != to[column]);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_workload_and_others_have_a_hint() {
        let settings = Settings::default();
        for (name, _) in NAMES {
            assert_eq!(named(name, &settings).unwrap().name, name);
        }
        assert_eq!(list("fillseq, readseq,a", &settings).unwrap().len(), 3);
        let error = list("fillseq,readrandum", &settings).unwrap_err();
        assert_eq!(error.nearest, Some("readrandom"));
        assert!(error.to_string().contains("did you mean") && error.to_string().contains("updaterandom"), "{error}");
        assert_eq!(named("frobnicate", &settings).unwrap_err().nearest, None);
        assert_eq!(named("", &settings).unwrap_err().nearest, None);
    }

    #[test]
    fn shares_and_distributions_come_from_names_and_settings() {
        let settings = Settings { distribution: Some(Choice::Uniform), sequential_percent: 7, ..Settings::default() };
        let near =
            |sequential_percent| Job::Fill { order: Order::Near { sequential_percent }, arrival: Arrival::Ascending };
        assert_eq!(named("fillnear", &settings).unwrap().job, near(7));
        assert_eq!(named("fillnear:95", &settings).unwrap().job, near(95));
        for (bad, share) in [("fillnear:101", "101"), ("fillnear:", ""), ("fillnear:-1", "-1"), ("fillnear:9x", "9x")] {
            let error = named(bad, &settings).unwrap_err().to_string();
            assert_eq!(error, format!("{bad}: the share of keys in order must be 0 to 100 percent, not {share:?}"));
        }
        assert!(named("fillseq:5", &settings).unwrap_err().to_string().contains("did you mean \"fillseq\"?"));
        let Job::Mix(mix) = named("d", &settings).unwrap().job else { unreachable!() };
        assert_eq!((mix.choice, mix.weights()), (Some(Choice::Uniform), 100));
    }

    #[test]
    fn distances() {
        assert_eq!((distance("", "abc"), distance("abc", "abc"), distance("abd", "abc")), (3, 0, 1));
        assert_eq!((distance("kitten", "sitting"), distance("ab", "ba")), (3, 2));
    }
}
