//! Tests of the maplet against a set of pairs: exact for whole fingerprints, at every size, merged or built at once.

use crate::filter::maplet::{COLUMNS_MAX, Columns, Shape, columns_of, page_of};
use crate::filter::maplet_build::{
    BuildError, ColumnMap, MapletBuild, MapletEntries, Payloads, SortedFingerprints, Source,
};
use crate::format::filter_page::PAGE_PAYLOAD_BYTES;
use crate::format::maplet_page::MapletPage;
use crate::util::Result;
use crate::util::random::splitmix64 as random;
use std::collections::{BTreeMap, BTreeSet};

/// Fingerprints with their columns.
type Model = BTreeMap<u32, BTreeSet<u8>>;

struct Pages(Vec<Vec<u8>>);

impl Payloads for &Pages {
    fn payload(&mut self, page: u32) -> Result<&[u8]> {
        Ok(&self.0[page as usize])
    }
}

impl Pages {
    fn count(&self) -> u32 {
        self.0.len() as u32
    }

    fn columns(&self, fingerprint: u32) -> Columns {
        columns_of(&self.0[page_of(fingerprint, self.count()) as usize], fingerprint, self.count())
    }

    fn saturated(&self) -> usize {
        self.0.iter().filter(|page| MapletPage::parse(page).unwrap().saturated()).count()
    }
}

fn all(build: &mut MapletBuild<'_>) -> Result<Pages, BuildError> {
    let mut pages = Pages(Vec::new());
    while let Some(payload) = build.next_page()? {
        assert!(payload.len() <= PAGE_PAYLOAD_BYTES);
        pages.0.push(payload.to_vec());
    }
    Ok(pages)
}

/// Builds a maplet from lists, with more pages while many are saturated. (Clustered fingerprints always saturate
/// pages.)
fn built(columns: &[Vec<u32>]) -> Pages {
    let entries = columns.iter().map(|column| column.len() as u64).sum();
    let mut shape = Shape::new(entries, columns.len());
    loop {
        let sources = columns.iter().enumerate().map(|(column, fingerprints)| sorted(fingerprints, column as u8));
        let mut build = MapletBuild::new(shape, sources.collect());
        let pages = all(&mut build).unwrap();
        assert_eq!(pages.count(), shape.pages());
        if !build.is_too_full() || u64::from(shape.pages()) > 2 + entries / 400 {
            return pages;
        }
        shape = shape.wider();
    }
}

fn sorted(fingerprints: &[u32], column: u8) -> Box<dyn Source> {
    let mut fingerprints = fingerprints.to_vec();
    fingerprints.sort_unstable();
    Box::new(SortedFingerprints::new(fingerprints, column))
}

fn model(columns: &[Vec<u32>]) -> Model {
    let mut model = Model::new();
    for (column, fingerprints) in columns.iter().enumerate() {
        fingerprints.iter().for_each(|fingerprint| {
            model.entry(*fingerprint).or_default().insert(column as u8);
        });
    }
    model
}

fn set(columns: &BTreeSet<u8>) -> Columns {
    Columns(columns.iter().fold(0, |set, column| set | 1 << column))
}

/// Every fingerprint yields exactly its columns. Other fingerprints, especially those near present ones, yield none.
fn check(pages: &Pages, model: &Model, state: &mut u64) {
    let saturated = pages.saturated();
    let expect = |fingerprint: u32| model.get(&fingerprint).map_or(Columns::default(), set);
    let mut unknown = 0;
    let near = model.keys().flat_map(|one| [*one, one.wrapping_add(1), one.wrapping_sub(1), one ^ 1 << 31]);
    for fingerprint in near.chain((0..2000).map(|_| random(state) as u32)) {
        let found = pages.columns(fingerprint);
        if found == Columns::ALL && saturated > 0 {
            unknown += 1;
        } else {
            assert_eq!(found, expect(fingerprint), "{fingerprint:#x}");
        }
    }
    assert!(saturated > 0 || unknown == 0);
}

/// Random fingerprints with all 32 bits or few, for columns that share some.
fn drawn(state: &mut u64, columns: usize, per_column: u64) -> Vec<Vec<u32>> {
    let bits = if random(state).is_multiple_of(3) { 10 + random(state) % 10 } else { 32 };
    let shared = random(state) % 4;
    let pool: Vec<u32> = (0..per_column).map(|_| (random(state) & ((1 << bits) - 1)) as u32).collect();
    let draw = |state: &mut u64| -> Vec<u32> {
        let count = random(state) % (per_column + 1);
        let one = |state: &mut u64| match pool.get((random(state) % (per_column + 1)) as usize) {
            Some(old) if random(state) % 4 < shared => *old,
            _ => (random(state) & ((1 << bits) - 1)) as u32,
        };
        (0..count).map(|_| one(state)).collect()
    };
    (0..columns).map(|_| draw(state)).collect()
}

#[test]
fn a_built_maplet_is_exact() {
    for seed in 0..60 {
        let mut state = seed;
        let columns = 1 + (random(&mut state) % 12) as usize;
        let per_column = [0, 1, 5, 100, 1500, 6000][(seed % 6) as usize];
        let lists = drawn(&mut state, columns, per_column);
        println!("seed {seed}: {columns} columns of up to {per_column}");
        check(&built(&lists), &model(&lists), &mut state);
    }
}

/// Columns are left out and renumbered, and maplets of different sizes are merged with new lists: the result is the
/// same as built at once.
#[test]
fn a_merged_maplet_is_the_same_as_one_built_at_once() {
    for seed in 0..40 {
        let mut state = seed;
        let per_column = [3, 200, 3000, 12_000][(seed % 4) as usize];
        let olds: Vec<Vec<Vec<u32>>> = (0..1 + random(&mut state) % 3)
            .map(|_| {
                let columns = 1 + (random(&mut state) % 6) as usize;
                drawn(&mut state, columns, per_column)
            })
            .collect();
        let made: Vec<Pages> = olds.iter().map(|old| built(old)).collect();
        let mut lists: Vec<Vec<u32>> = Vec::new();
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for (old, pages) in olds.iter().zip(&made) {
            let mut columns: ColumnMap = [None; COLUMNS_MAX];
            for (column, fingerprints) in old.iter().enumerate() {
                if !random(&mut state).is_multiple_of(4) {
                    columns[column] = Some(lists.len() as u8);
                    lists.push(fingerprints.clone());
                }
            }
            if pages.saturated() == 0 {
                sources.push(Box::new(MapletEntries::new(pages, pages.count(), columns)));
            } else {
                lists.truncate(columns.iter().flatten().min().map_or(lists.len(), |first| usize::from(*first)));
            }
        }
        let fresh = drawn(&mut state, 2, per_column);
        for fingerprints in fresh {
            sources.push(sorted(&fingerprints, lists.len() as u8));
            lists.push(fingerprints);
        }
        println!("seed {seed}: {} maplets, {} columns of up to {per_column}", olds.len(), lists.len());
        let shape = Shape::new(lists.iter().map(|list| list.len() as u64).sum(), lists.len());
        let mut build = MapletBuild::new(shape, sources);
        let pages = all(&mut build).unwrap();
        if pages.saturated() == 0 {
            let counts = lists.iter().map(|list| list.len() as u64);
            assert!(counts.eq(build.entries()[..lists.len()].iter().copied()));
        }
        check(&pages, &model(&lists), &mut state);
    }
}

/// The figures in the module documentation.
#[test]
fn size_and_false_positives_keep_their_bounds() {
    let mut state = 5;
    for (entries, columns, bytes_max) in [(10_000, 16, 4.6), (1_000_000, 16, 3.5), (1_000_000, 1, 2.9)] {
        let each = entries / columns;
        let lists: Vec<Vec<u32>> =
            (0..columns).map(|_| (0..each).map(|_| random(&mut state) as u32).collect()).collect();
        let pages = built(&lists);
        let bytes = f64::from(pages.count()) * 4096.0 / f64::from(entries);
        let wrong = (0..1_000_000).filter(|_| pages.columns(random(&mut state) as u32) != Columns::default()).count();
        println!("{entries} entries, {columns} columns: {bytes:.2} bytes each, {wrong} of a million wrong");
        assert!(bytes <= bytes_max && pages.saturated() == 0);
        // Entries / 2^32: at a million entries 244 in a million; three standard deviations are 47.
        assert!((wrong as f64) < f64::from(entries) * 1e6 / 4.29e9 + 50.0);
    }
}

/// Fingerprints crafted to overflow a page cost reads but give no wrong answers, and an incomplete maplet is not
/// merged.
#[test]
fn crafted_fingerprints_saturate_a_page_and_are_not_merged() {
    let mut state = 13;
    let mut list: Vec<u32> = (0..50_000).map(|_| random(&mut state) as u32).collect();
    list.extend((0..20_000).map(|index| 0x8000_0000 + index % 7));
    let shape = Shape::new(list.len() as u64, 2);
    let pages = all(&mut MapletBuild::new(shape, vec![sorted(&list, 1)])).unwrap();
    assert!((1..3).contains(&pages.saturated()), "{} of {} pages", pages.saturated(), pages.count());
    assert!(list.iter().all(|fingerprint| pages.columns(*fingerprint).0 & 2 != 0));
    let columns = [Some(0); COLUMNS_MAX];
    let mut merge = MapletBuild::new(shape, vec![Box::new(MapletEntries::new(&pages, pages.count(), columns))]);
    assert!(matches!(all(&mut merge), Err(BuildError::Incomplete)));
}

#[test]
fn every_fingerprint_belongs_to_the_page_that_ends_after_it() {
    let mut state = 17;
    for entries in [0, 1, 1300, 50_000, 3_000_000, 400_000_000, 1 << 36] {
        let shape = Shape::new(entries, 5);
        let pages = shape.pages();
        assert_eq!(shape.last_of(pages - 1), u32::MAX);
        assert_eq!(page_of(0, pages), 0);
        for _ in 0..1000 {
            let page = random(&mut state) as u32 % pages;
            let last = shape.last_of(page);
            assert_eq!(page_of(last, pages), page, "{pages} pages");
            assert!(page == pages - 1 || page_of(last + 1, pages) == page + 1);
        }
    }
}

/// Whatever the bytes are, a lookup returns. An invalid page may contain everything and is not merged.
#[test]
fn garbage_never_panics() {
    let mut state = 19;
    let list: Vec<u32> = (0..300).map(|_| random(&mut state) as u32).collect();
    let good = built(&[list.clone(), list.clone()]).0.remove(0);
    let mut probes: Vec<u32> = list[..20].to_vec();
    probes.extend([0, u32::MAX]);
    let merged = |page: &[u8]| {
        let pages = Pages(vec![page.to_vec()]);
        let kept = MapletEntries::new(&pages, 1, [Some(0); COLUMNS_MAX]);
        all(&mut MapletBuild::new(Shape::new(2000, 1), vec![Box::new(kept)])).is_ok()
    };
    for length in 0..good.len() {
        assert_eq!(columns_of(&good[..length], list[0], 1), Columns::ALL, "cut to {length}");
        assert!(!merged(&good[..length]));
    }
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            for &fingerprint in &probes {
                let _ = columns_of(&bad, fingerprint, 1);
            }
            if at % 16 == 0 {
                let _ = merged(&bad);
            }
        }
    }
    assert_eq!(columns_of(&good, list[0], 2), Columns::ALL, "a page of another maplet was accepted");
    let mut padded = good.clone();
    padded.resize(PAGE_PAYLOAD_BYTES, 0xff);
    assert!(list.iter().all(|&fingerprint| columns_of(&padded, fingerprint, 1) == Columns(3)));
}

/// The entries of a small maplet, so that a change of the format is noticed.
#[test]
fn the_format_on_disk_never_changes() {
    let page = built(&[vec![0x1000_0000, 0x1000_0001], vec![0x1000_0001], vec![0xffff_ffff]]).0.remove(0);
    assert_eq!(page[..16], [1, 24, 2, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    let ends: Vec<u8> = page[16..528].chunks(2).map(|end| end[0]).collect();
    assert!(ends[..16].iter().all(|end| *end == 0) && ends[16..255].iter().all(|end| *end == 3) && ends[255] == 4);
    // 26 bits each: remainder, then column. The bucket is the first byte of the fingerprint, the remainder the other
    // bytes.
    let entries = [1 | 1 << 24, 1, 0, 0xff_ffff | 2 << 24];
    let bits = entries.iter().rev().fold(0u128, |bits, entry| bits << 26 | *entry as u128);
    assert_eq!(page[528..], bits.to_le_bytes()[..13].iter().copied().chain([0; 8]).collect::<Vec<u8>>());
}
