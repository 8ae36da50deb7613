//! Where part files end between close and scattered keys.

use super::rig::{Random, Rig, key, small_options};
use crate::branch::Branch;
use crate::disk::runs::output::OutputWriter;
use crate::merge::vec_cursor::VecEntry;
use crate::util::key::encoded;
use crate::util::{KeyspaceId, Kind};
use std::sync::Arc;

/// A part file may end at a gap only from this size on.
const GAPS_FROM: u64 = 16 << 10;

/// The part files that entries of these keys make.
fn parts(keys: &[Vec<u8>], versions: u64) -> Vec<Arc<Branch>> {
    let rig = Rig::new(small_options(4096));
    let mut writer = OutputWriter::new(&rig.context, &[], 4096, u64::MAX).split_at_gaps_from(GAPS_FROM);
    for key in keys {
        for version in (1..=versions).rev() {
            writer.add(VecEntry::new(key.clone(), version, Kind::Put, vec![7; 100]).as_ref()).unwrap();
        }
    }
    let parts = writer.finish().unwrap().take();
    let entries: u64 = parts.iter().map(|part| part.meta().entries).sum();
    assert_eq!(entries, keys.len() as u64 * versions);
    parts
}

fn sorted(mut keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    keys.sort();
    keys.dedup();
    keys
}

/// Keys in any alphabet are one part file, random or not. The number of bits that neighbours have in common varies, and
/// there are some wide gaps, as between "1999" and "2000".
#[test]
fn keys_of_one_kind_are_one_file() {
    let mut random = Random(41);
    let mut make = |write: &dyn Fn(u64) -> Vec<u8>| sorted((0..20_000).map(|_| write(random.next())).collect());
    let binary = make(&|number| encoded(KeyspaceId::DEFAULT, &number.to_be_bytes()));
    let decimal = make(&|number| key(&format!("user{:09}", number % 1_000_000_000)));
    let hexadecimal = make(&|number| key(&format!("{number:016x}")));
    // A thousand users with twenty entries each.
    let close = (0..20_000).map(|number| key(&format!("{number:08}"))).collect();
    let grouped = make(&|number| key(&format!("{:05}/{:08}", number % 1000 * 97, number >> 40)));
    for keys in [binary, decimal, hexadecimal, grouped, close] {
        assert_eq!(parts(&keys, 1).len(), 1, "{}", keys[0].escape_ascii());
    }
}

#[test]
fn a_stretch_of_close_keys_ends_where_scattered_ones_begin() {
    let mut random = Random(42);
    for scattered in [1, 2, 5, 15, 16, 17, 40, 500] {
        for versions in [1, 3] {
            // Another gap shortly before the boundary must not hide it: 2000 of 2008, and 2048 of 2049.
            for close in [1990, 2000, 2001, 2008, 2049] {
                let binary = |number: u64| encoded(KeyspaceId::DEFAULT, &number.to_be_bytes());
                let decimal = |number: u64| key(&format!("{number:020}"));
                for write in [&binary as &dyn Fn(u64) -> Vec<u8>, &decimal] {
                    let mut keys: Vec<_> = (0..close).map(write).collect();
                    let last = keys[keys.len() - 1].clone();
                    keys.extend((0..scattered).map(|_| write(random.next() | 1 << 63)));
                    let parts = parts(&sorted(keys), versions);
                    assert_eq!(parts.len(), 2, "{scattered} scattered keys after {close}");
                    assert_eq!(parts[0].meta().key_max, last);
                    assert_eq!(parts[1].meta().distinct_keys, scattered);
                }
            }
        }
    }
}

/// The versions of a short key have few bits in common, because the key has few. They are not a gap.
#[test]
fn versions_of_a_short_key_stay_together() {
    let mut keys: Vec<_> = (0..2000).map(|number| key(&format!("a long prefix and {number:06}"))).collect();
    keys.push(key("b"));
    let parts = parts(&keys, 40);
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[1].meta().entries, 40);
}
