//! Where to split a leaf: at keys that divide its bytes evenly, preferably where part files begin, so that the parts
//! share few files. Reads index pages; no lock; one thread for each split.

use crate::branch::Purpose;
use crate::disk::runs::run::{self, Key};
use crate::disk::runs::run_cursor::merged;
use crate::disk::trunk::tree::node::Node;
use crate::merge::Cursor;
use crate::util::{Result, SequenceNumber};

/// The most bisections of a key range. Each gains a bit, and keys differ within 15 bytes after their common prefix.
const BISECTIONS_MAX: usize = 64;

/// At most `parts - 1` keys that divide the leaf into parts of about equal size, none of them empty. Fewer, or none, if
/// there are too few distinct keys.
pub fn choose(leaf: &Node, parts: usize) -> Result<Vec<Key>> {
    let Some(ends) = ends(leaf)? else { return Ok(Vec::new()) };
    let total = leaf.active.bytes;
    let slack = total / parts as u64 / 4;
    let candidates = candidates(leaf, &ends);
    let mut keys: Vec<Key> = Vec::new();
    for at in 1..parts as u64 {
        let wanted = total / parts as u64 * at;
        let key = nearest(leaf, &candidates, &ends, wanted, slack)?;
        let fresh = keys.last().is_none_or(|last| **last < *key);
        if fresh && *key > *ends.first && *key <= *ends.last {
            keys.push(key.into());
        }
    }
    Ok(keys)
}

/// The bytes of the largest part that a split at `keys` would make, as each part would measure them.
pub fn largest_part(leaf: &Node, keys: &[Key]) -> Result<u64> {
    let mut largest = 0;
    for at in 0..=keys.len() {
        let lower = if at == 0 { &leaf.lower } else { &keys[at - 1] };
        let upper = keys.get(at).or(leaf.upper.as_ref());
        largest = largest.max(bytes_between(leaf, lower, upper.map(|upper| &**upper))?);
    }
    Ok(largest)
}

/// The smallest and the largest key in a leaf.
struct Ends {
    first: Vec<u8>,
    last: Vec<u8>,
}

fn ends(leaf: &Node) -> Result<Option<Ends>> {
    let mut cursor = merged(run::group(leaf.branches()), Purpose::Read);
    cursor.seek(&leaf.lower, SequenceNumber::MAX)?;
    if !cursor.valid() {
        return Ok(None);
    }
    let first = cursor.entry().key.to_vec();
    match &leaf.upper {
        Some(upper) => cursor.seek_for_prev(upper, SequenceNumber::MAX)?,
        None => cursor.seek_last()?,
    }
    if !cursor.valid() {
        return Ok(None);
    }
    let last = cursor.entry().key.to_vec();
    Ok((first < last).then_some(Ends { first, last }))
}

/// Where part files begin inside the leaf.
fn candidates<'a>(leaf: &'a Node, ends: &Ends) -> Vec<&'a [u8]> {
    let starts = leaf.branches().map(|branch| &branch.meta().key_min[..]);
    let mut starts: Vec<&[u8]> = starts.filter(|key| **key > *ends.first && **key <= *ends.last).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The key before which there are nearest to `wanted` bytes: a candidate within `slack`, or one found by bisection.
fn nearest(leaf: &Node, candidates: &[&[u8]], ends: &Ends, wanted: u64, slack: u64) -> Result<Vec<u8>> {
    let (mut from, mut to) = (0, candidates.len());
    let mut best: Option<(u64, &[u8])> = None;
    while from < to {
        let middle = from + (to - from) / 2;
        let before = bytes_between(leaf, &leaf.lower, Some(candidates[middle]))?;
        let error = before.abs_diff(wanted);
        if best.is_none_or(|(least, _)| error < least) {
            best = Some((error, candidates[middle]));
        }
        if before < wanted { from = middle + 1 } else { to = middle }
    }
    if let Some((error, key)) = best
        && error <= slack
    {
        return Ok(key.to_vec());
    }
    let lower = if from == 0 { &ends.first[..] } else { candidates[from - 1] };
    let upper = if from == candidates.len() { &ends.last[..] } else { candidates[from] };
    bisect(leaf, lower, upper, wanted, slack / 4)
}

fn bisect(leaf: &Node, lower: &[u8], upper: &[u8], wanted: u64, slack: u64) -> Result<Vec<u8>> {
    let (mut lower, mut upper) = (lower.to_vec(), upper.to_vec());
    for _ in 0..BISECTIONS_MAX {
        let Some(middle) = middle(&lower, &upper) else { break };
        let before = bytes_between(leaf, &leaf.lower, Some(&middle))?;
        let is_near = before.abs_diff(wanted) <= slack;
        if before < wanted && !is_near {
            lower = middle
        } else {
            upper = middle
        }
        if is_near {
            break;
        }
    }
    // A key that exists, so that neither part is empty.
    let mut cursor = merged(run::group(leaf.branches()), Purpose::Read);
    cursor.seek(&upper, SequenceNumber::MAX)?;
    Ok(if cursor.valid() { cursor.entry().key.to_vec() } else { upper })
}

/// About how many bytes of the leaf lie in [lower, upper).
fn bytes_between(leaf: &Node, lower: &[u8], upper: Option<&[u8]>) -> Result<u64> {
    let mut bytes = 0;
    for branch in leaf.branches().filter(|branch| run::overlaps(branch, lower, upper)) {
        let meta = branch.meta();
        let is_inside = meta.key_min[..] >= *lower && upper.is_none_or(|upper| meta.ends_before(upper));
        bytes += if is_inside { meta.bytes } else { branch.approximate_bytes(lower, upper)? };
    }
    Ok(bytes)
}

/// A string about half-way between two, read as fractions to the base 256; `None` if they are too close.
fn middle(lower: &[u8], upper: &[u8]) -> Option<Vec<u8>> {
    const DIGITS: usize = 15;
    let shared = lower.iter().zip(upper).take_while(|(left, right)| left == right).count();
    let number = |bytes: &[u8]| {
        let digit = |at: usize| u128::from(bytes.get(shared + at).copied().unwrap_or(0));
        (0..DIGITS).fold(0u128, |sum, at| sum << 8 | digit(at))
    };
    let sum = number(lower) + number(upper);
    let digits = (sum / 2).to_be_bytes();
    let mut out = lower[..shared].to_vec();
    out.extend_from_slice(&digits[16 - DIGITS..]);
    while out.len() > shared && out.last() == Some(&0) {
        out.pop();
    }
    (*out > *lower && *out < *upper).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::middle;

    #[test]
    fn the_middle_lies_between() {
        let cases: [(&[u8], &[u8]); 6] =
            [(b"a", b"c"), (b"a", b"b"), (b"", b"\x01"), (b"abc", b"abd"), (b"ab", b"abz"), (b"key00", b"key99")];
        for (lower, upper) in cases {
            let middle = middle(lower, upper).unwrap();
            assert!(*middle > *lower && *middle < *upper, "{middle:?}");
        }
        assert_eq!(middle(b"a", b"a\0"), None);
        assert_eq!(middle(b"a", b"a"), None);
        assert_eq!(middle(&[0xff; 20], &[0xff; 40]), Some([&[0xff; 20][..], &[0x7f][..], &[0xff; 14][..]].concat()));
    }
}
