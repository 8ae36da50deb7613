//! From repetitions to medians, and from two engines' repetitions to a ratio with its spread.

use crate::record::{Conditions, Record};
use std::collections::BTreeMap;

/// The median of some numbers, for an even count the mean of the two middle ones; `None` without numbers.
pub fn median(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        count if count % 2 == 1 => Some(numbers[middle]),
        _ => Some(f64::midpoint(numbers[middle - 1], numbers[middle])),
    }
}

/// A ratio over the repetitions: each repetition of one engine is divided by the same repetition of the other, which
/// ran next to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
    /// The number of repetitions.
    pub repeats: usize,
}

impl Ratio {
    /// From numbers by repetition; `None` if no repetition has both.
    pub fn of(ours: &BTreeMap<u32, f64>, theirs: &BTreeMap<u32, f64>) -> Option<Self> {
        let pairs = ours.iter().filter_map(|(repeat, ours)| Some((*ours, *theirs.get(repeat)?)));
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).filter(|ratio| ratio.is_finite()).collect();
        Some(Self {
            median: median(ratios.iter().copied())?,
            low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            high: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            repeats: ratios.len(),
        })
    }
}

/// One engine's repetitions of one workload.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// The engine.
    pub engine: &'a str,
    /// The repetitions, in order.
    pub records: Vec<&'a Record>,
}

impl Series<'_> {
    /// The median of a figure.
    pub fn median(&self, figure: impl Fn(&Record) -> f64) -> f64 {
        median(self.records.iter().map(|record| figure(record))).unwrap_or(0.0)
    }

    /// The median of a figure that some repetitions lack.
    pub fn median_of_some(&self, figure: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
        median(self.records.iter().filter_map(|record| figure(record)))
    }

    /// The maximum of a figure, for figures with a hard limit.
    pub fn worst(&self, figure: impl Fn(&Record) -> f64) -> f64 {
        self.records.iter().map(|record| figure(record)).fold(0.0, f64::max)
    }

    /// Operations per second by repetition.
    fn rates(&self) -> BTreeMap<u32, f64> {
        self.records.iter().map(|record| (record.repeat, record.outcome.ops_per_s)).collect()
    }

    /// The ratio of this engine's throughput to another's.
    pub fn speed_ratio(&self, other: &Series<'_>) -> Option<Ratio> {
        Ratio::of(&self.rates(), &other.rates())
    }

    /// The repetition with the throughput nearest to the median: its curves are shown.
    pub fn typical(&self) -> Option<&Record> {
        let middle = self.median(|record| record.outcome.ops_per_s);
        let distance = |record: &Record| (record.outcome.ops_per_s - middle).abs();
        self.records.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }

    /// Whether a repetition was disturbed.
    pub fn is_disturbed(&self) -> bool {
        self.records.iter().any(|record| record.disturbed)
    }
}

/// One workload under one set of conditions, with all engines.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The conditions.
    pub conditions: Conditions,
    /// The workload.
    pub workload: &'a str,
    /// The workloads on the store up to it.
    pub path: &'a str,
    /// The engines, in the order of tables.
    pub series: Vec<Series<'a>>,
}

impl<'a> Group<'a> {
    /// An engine's repetitions.
    pub fn of(&self, engine: &str) -> Option<&Series<'a>> {
        self.series.iter().find(|series| series.engine == engine)
    }
}

/// Sorts records into groups: by ascending keys and threads, then by the order in which the workloads ran.
pub fn groups<'a>(records: &'a [Record], engines: &[&str]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for record in records {
        let conditions = record.conditions();
        let at = groups.iter().position(|group| group.conditions == conditions && group.path == record.path);
        let at = at.unwrap_or_else(|| {
            let (workload, path) = (record.outcome.workload.as_str(), record.path.as_str());
            groups.push(Group { conditions, workload, path, series: Vec::new() });
            groups.len() - 1
        });
        let series = &mut groups[at].series;
        match series.iter_mut().find(|series| series.engine == record.outcome.engine) {
            Some(series) => series.records.push(record),
            None => series.push(Series { engine: &record.outcome.engine, records: vec![record] }),
        }
    }
    let place = |engine: &str| engines.iter().position(|name| *name == engine).unwrap_or(engines.len());
    for group in &mut groups {
        group.series.sort_by_key(|series| place(series.engine));
        group.series.iter_mut().for_each(|series| series.records.sort_by_key(|record| record.repeat));
    }
    // Stable: within the same conditions the workloads stay in the order in which they were measured.
    groups.sort_by(|a, b| {
        let key = |group: &Group<'_>| {
            let Conditions { num, threads, memory_mib, sync, .. } = group.conditions;
            (sync, num, memory_mib, threads)
        };
        key(a).cmp(&key(b))
    });
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_bench::Outcome;

    fn record(engine: &str, workload: &str, repeat: u32, ops_per_s: f64) -> Record {
        let outcome =
            Outcome { engine: engine.into(), workload: workload.into(), ops_per_s, threads: 1, ..Outcome::default() };
        Record { outcome, repeat, path: workload.into(), ..Record::default() }
    }

    #[test]
    fn medians() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0]), Some(3.0));
        assert_eq!(median([9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 100.0]), Some(3.0));
        assert_eq!(median([f64::NAN, 5.0, f64::INFINITY]), Some(5.0));
    }

    #[test]
    fn ratios_pair_repetitions_and_keep_their_spread() {
        let numbers = |pairs: &[(u32, f64)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
        // The machine was half as fast in the second repetition; the ratio does not change.
        let ratio =
            Ratio::of(&numbers(&[(1, 600.0), (2, 300.0), (3, 660.0)]), &numbers(&[(1, 100.0), (2, 50.0), (3, 100.0)]));
        let ratio = ratio.unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.repeats), (6.0, 6.0, 3));
        assert!((ratio.high - 6.6).abs() < 1e-9);
        // Only the repetitions that both have count.
        let ratio = Ratio::of(&numbers(&[(1, 4.0), (2, 8.0)]), &numbers(&[(2, 2.0), (3, 1.0)])).unwrap();
        assert_eq!((ratio.median, ratio.repeats), (4.0, 1));
        assert_eq!(Ratio::of(&numbers(&[(1, 4.0)]), &numbers(&[(2, 2.0)])), None);
        assert_eq!(Ratio::of(&numbers(&[(1, 4.0)]), &numbers(&[(1, 0.0)])), None);
    }

    #[test]
    fn records_are_grouped_by_workload_and_conditions() {
        let mut two_threads = record("b", "w", 1, 5.0);
        two_threads.outcome.threads = 2;
        let records = [
            two_threads,
            record("b", "w", 2, 3.0),
            record("a", "w", 1, 10.0),
            record("b", "w", 1, 2.0),
            record("a", "v", 1, 1.0),
        ];
        let groups = groups(&records, &["a", "b"]);
        let shown: Vec<(&str, usize, Vec<&str>)> = groups
            .iter()
            .map(|group| {
                (group.workload, group.conditions.threads, group.series.iter().map(|series| series.engine).collect())
            })
            .collect();
        assert_eq!(shown, [("w", 1, vec!["a", "b"]), ("v", 1, vec!["a"]), ("w", 2, vec!["b"])]);
        let b = groups[0].of("b").unwrap();
        assert_eq!(b.records.iter().map(|record| record.repeat).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(b.median(|record| record.outcome.ops_per_s), 2.5);
        assert_eq!(groups[0].of("a").unwrap().speed_ratio(b).unwrap().median, 5.0);
    }

    #[test]
    fn the_typical_repetition_is_the_one_nearest_to_the_median() {
        let records = [record("a", "w", 1, 90.0), record("a", "w", 2, 10.0), record("a", "w", 3, 80.0)];
        let groups = groups(&records, &["a"]);
        assert_eq!(groups[0].series[0].typical().unwrap().repeat, 3);
    }
}
