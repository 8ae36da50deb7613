//! The bounds between the partitions of the Membuffer, learned from the keys. (FloDB §4.3 uses fixed high bits, but all
//! keys with a common prefix have the same ones.)
//!
//! Immutable, any thread. Partition `p` has the keys from pivot `p - 1` up to, but without, pivot `p`.

use crate::util::sync::{Arc, OnceLock};

/// Sampled keys for each pivot. More samples make the partitions more even.
const SAMPLES_PER_PIVOT: usize = if cfg!(feature = "model-checking") { 2 } else { 8 };

/// See the module.
#[derive(Debug, Default)]
pub struct Boundaries {
    /// The common prefix of all pivots.
    prefix: Box<[u8]>,
    /// Of each pivot the eight bytes after the prefix.
    heads: Vec<u64>,
    /// The pivots in rising order: encoded keys.
    pivots: Vec<Box<[u8]>>,
}

impl Boundaries {
    /// A single partition. One instance is shared by all Memtables that have not learned boundaries.
    pub fn none() -> Arc<Self> {
        static NONE: OnceLock<Arc<Boundaries>> = OnceLock::new();
        Arc::clone(NONE.get_or_init(Arc::default))
    }

    /// Boundaries from a uniform sample of the keys, in any order.
    pub fn learn(mut sample: Vec<&[u8]>) -> Self {
        sample.sort_unstable();
        let mut pivots: Vec<Box<[u8]>> =
            sample.into_iter().skip(SAMPLES_PER_PIVOT / 2).step_by(SAMPLES_PER_PIVOT).map(Into::into).collect();
        pivots.dedup();
        let common = match &pivots[..] {
            [first, .., last] => common_prefix(first, last),
            _ => 0,
        };
        let prefix = pivots.first().map_or(&[][..], |first| &first[..common]).into();
        let heads = pivots.iter().map(|pivot| head(&pivot[common..])).collect();
        Self { prefix, heads, pivots }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.pivots.len() + 1
    }

    /// The partition of an encoded key, or of the front of one.
    pub fn partition_of(&self, key: &[u8]) -> usize {
        let Some(rest) = key.strip_prefix(&*self.prefix) else {
            return if key < &*self.prefix { 0 } else { self.pivots.len() };
        };
        let wanted = head(rest);
        let first = self.heads.partition_point(|head| *head < wanted);
        let equal = self.heads[first..].iter().take_while(|head| **head == wanted).count();
        first + self.pivots[first..first + equal].partition_point(|pivot| &**pivot <= key)
    }

    /// The least key of a partition; `None` for the first one, which has no bound below.
    pub fn lower(&self, partition: usize) -> Option<&[u8]> {
        Some(self.pivots.get(partition.checked_sub(1)?)?)
    }

    /// The least key after a partition; `None` for the last one.
    pub fn upper(&self, partition: usize) -> Option<&[u8]> {
        self.pivots.get(partition).map(|pivot| &**pivot)
    }

    /// The length of a prefix that all keys of a partition are known to have in common.
    pub fn common_bytes(&self, partition: usize) -> usize {
        match (self.lower(partition), self.upper(partition)) {
            (Some(lower), Some(upper)) => common_prefix(lower, upper),
            _ => 0,
        }
    }
}

/// The length of the common prefix of two keys.
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn head(bytes: &[u8]) -> u64 {
    let mut head = [0; 8];
    let taken = bytes.len().min(head.len());
    head[..taken].copy_from_slice(&bytes[..taken]);
    u64::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::random::splitmix64;

    /// Keys of one of five kinds. Each is difficult for fixed partitions in its own way.
    fn keys(kind: usize, count: u64) -> Vec<Vec<u8>> {
        let mut seed = kind as u64;
        let mut random = move || splitmix64(&mut seed);
        (0..count)
            .map(|n| match kind {
                0 => random().to_be_bytes().to_vec(),
                1 => format!("user{:012}", random() % 1_000_000_000).into_bytes(),
                2 => n.to_be_bytes().to_vec(),
                3 => format!("https://www.example{}.org/path/{}", random() % 3, random() % 1_000_000).into_bytes(),
                _ => (0..random() % 12).map(|_| [0, 0, b'a', 0xff][random() as usize % 4]).collect(),
            })
            .collect()
    }

    #[test]
    fn keys_are_within_the_bounds_of_their_partition() {
        for kind in 0..5 {
            let all = keys(kind, 4000);
            let boundaries = Boundaries::learn(all.iter().step_by(7).map(Vec::as_slice).collect());
            for key in keys(kind + 10, 500).iter().chain(&all) {
                let partition = boundaries.partition_of(key);
                assert!(partition < boundaries.partitions());
                assert!(boundaries.lower(partition).is_none_or(|lower| lower <= key), "{key:?}");
                assert!(boundaries.upper(partition).is_none_or(|upper| &key[..] < upper), "{key:?}");
                let (common, lower) = (boundaries.common_bytes(partition), boundaries.lower(partition));
                assert!(common == 0 || key[..common] == lower.unwrap()[..common], "{key:?}");
            }
        }
    }

    #[test]
    fn keys_with_common_prefixes_spread_evenly() {
        for kind in 0..4 {
            let all = keys(kind, 64_000);
            let boundaries = Boundaries::learn(all.iter().step_by(100).map(Vec::as_slice).collect());
            assert_eq!(boundaries.partitions(), 81);
            let mut counts = vec![0; boundaries.partitions()];
            all.iter().for_each(|key| counts[boundaries.partition_of(key)] += 1);
            let most = counts.iter().max().unwrap();
            assert!(*most < 6 * all.len() / counts.len(), "kind {kind}: {counts:?}");
        }
    }

    #[test]
    fn default_boundaries_have_one_partition() {
        let boundaries = Boundaries::default();
        assert_eq!((boundaries.partitions(), boundaries.partition_of(b"key")), (1, 0));
        assert_eq!((boundaries.lower(0), boundaries.upper(0), boundaries.common_bytes(0)), (None, None, 0));
    }
}
