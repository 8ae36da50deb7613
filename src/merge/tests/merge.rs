//! The merge against a sorted vector: random movements over overlapping sources.

use super::{Random, sorted};
use crate::merge::vec_cursor::{VecCursor, VecEntry};
use crate::merge::{Cursor, EntryRef, Limit, MergeCursor};
use crate::util::key::wide_head as head;
use crate::util::{Kind, Result, SequenceNumber};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

/// Distributes entries over sources, newest source first. Some are given to two sources. The copy in the older source
/// has another value, so that the model can tell which copy was returned.
fn deal(random: &mut Random, entries: &[VecEntry], sources: usize) -> (Vec<VecCursor>, Vec<VecEntry>) {
    let mut dealt = vec![Vec::new(); sources];
    for entry in entries {
        let first = random.below(sources as u64) as usize;
        dealt[first].push(entry.clone());
        for source in &mut dealt[first + 1..] {
            if random.below(5) == 0 {
                source.push(VecEntry { value: b"the older copy".to_vec(), ..entry.clone() });
            }
        }
    }
    (dealt.into_iter().map(VecCursor::new).collect(), sorted(entries.to_vec()))
}

fn assert_position(merge: &MergeCursor<impl Cursor>, model: &[VecEntry], at: Option<usize>) {
    assert_eq!(merge.valid(), at.is_some());
    if let Some(at) = at {
        assert_eq!(merge.entry(), model[at].as_ref());
    }
}

/// One random movement on the merge and the model; returns the position of the model.
fn move_randomly(
    random: &mut Random,
    merge: &mut MergeCursor<VecCursor>,
    model: &[VecEntry],
    at: Option<usize>,
) -> Result<Option<usize>> {
    let within = |at: usize| (at < model.len()).then_some(at);
    match (random.below(14), at) {
        (12.., Some(at)) => pass(random, merge, model, at).map(within),
        (0, _) => merge.seek_first().map(|()| within(0)),
        (1, _) => merge.seek_last().map(|()| model.len().checked_sub(1)),
        (2, _) | (2..7, None) => {
            let (key, number) = (random.key(16), random.number(60));
            let target = model.partition_point(|entry| entry.as_ref().order(&key, number).is_lt());
            merge.seek(&key, number).map(|()| within(target))
        }
        (3, _) | (7.., None) => {
            let (key, number) = (random.key(16), random.number(60));
            let behind = model.partition_point(|entry| entry.as_ref().order(&key, number).is_le());
            merge.seek_for_prev(&key, number).map(|()| behind.checked_sub(1))
        }
        (4..8, Some(at)) => merge.next().map(|()| within(at + 1)),
        (_, Some(at)) => merge.prev().map(|()| at.checked_sub(1)),
    }
}

/// Passes some entries, up to a limit or not. Returns the position of the model.
fn pass(random: &mut Random, merge: &mut MergeCursor<VecCursor>, model: &[VecEntry], at: usize) -> Result<usize> {
    let (count, key) = (random.below(10) as usize, random.key(16));
    let (limit, is_limited) = if random.below(2) == 0 { (Limit::NONE, false) } else { (Limit::at(&key), true) };
    let mut passed = Vec::new();
    let flow = merge.pass(limit, &mut |entry: EntryRef<'_>| {
        if passed.len() == count {
            return ControlFlow::Break(());
        }
        passed.push(VecEntry::from(entry));
        ControlFlow::Continue(())
    })?;
    let before_limit = |entry: &&VecEntry| !is_limited || entry.key < key;
    // The limit does not concern the entry that the cursor was on.
    let passable = 1 + model[at + 1..].iter().take_while(before_limit).count();
    let end = at + count.min(passable);
    assert_eq!(passed, model[at..end], "{count} from {at}, limit {is_limited}: {key:?}");
    assert_eq!(flow.is_break(), count < passable);
    Ok(end)
}

#[test]
fn random_movements_match_a_sorted_vector() {
    for seed in 0..1000 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (count, space, sources) = (random.below(60), random.below(16) + 1, random.below(9) as usize);
        let entries = if sources == 0 { Vec::new() } else { random.versions(count, space) };
        let (cursors, model) = deal(&mut random, &entries, sources);
        let mut merge = MergeCursor::new(cursors);
        let mut at = None;
        assert!(!merge.valid());
        for _ in 0..100 {
            at = move_randomly(&mut random, &mut merge, &model, at).unwrap();
            assert_position(&merge, &model, at);
        }
    }
}

#[test]
fn whole_passes_both_ways_match() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let sources = random.below(17) as usize + 1;
        let entries = random.versions(200, 16);
        let (cursors, model) = deal(&mut random, &entries, sources);
        let mut merge = MergeCursor::new(cursors);
        merge.seek_first().unwrap();
        for at in 0..model.len() {
            assert_position(&merge, &model, Some(at));
            merge.next().unwrap();
        }
        assert!(!merge.valid());
        merge.seek_last().unwrap();
        for at in (0..model.len()).rev() {
            assert_position(&merge, &model, Some(at));
            merge.prev().unwrap();
        }
        assert!(!merge.valid());
    }
}

#[test]
fn after_an_error_the_merge_is_unpositioned_until_a_seek() {
    let mut failures = 0;
    for seed in 0..1000 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let sources = random.below(6) as usize + 1;
        let entries = random.versions(40, 8);
        let (mut cursors, model) = deal(&mut random, &entries, sources);
        let bad = random.below(sources as u64) as usize;
        let movements = random.below(40) as u32;
        cursors[bad] = cursors[bad].clone().failing_after(movements);
        let mut merge = MergeCursor::new(cursors);
        let mut at = None;
        for _ in 0..200 {
            match move_randomly(&mut random, &mut merge, &model, at) {
                Ok(now) => at = now,
                Err(_) => {
                    failures += 1;
                    at = None;
                }
            }
            assert_position(&merge, &model, at);
        }
    }
    assert!(failures > 800, "only {failures} failures occurred");
}

/// A source that grows while it is read, as a Memtable does: every movement searches again.
#[derive(Clone)]
struct Growing {
    entries: Arc<Mutex<Vec<VecEntry>>>,
    at: Option<VecEntry>,
}

impl Growing {
    fn by(&mut self, place: impl Fn(&mut VecCursor) -> Result<()>) -> Result<()> {
        let mut cursor = VecCursor::new(self.entries.lock().unwrap().clone());
        place(&mut cursor)?;
        self.at = cursor.valid().then(|| cursor.entry().into());
        Ok(())
    }

    fn by_from_here(&mut self, place: impl Fn(&mut VecCursor) -> Result<()>) -> Result<()> {
        let here = self.at.take().unwrap();
        self.by(|cursor| cursor.seek(&here.key, here.number).and_then(|()| place(cursor)))
    }
}

impl Cursor for Growing {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.by(|cursor| cursor.seek(key, number))
    }
    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.by(|cursor| cursor.seek_for_prev(key, number))
    }
    fn seek_first(&mut self) -> Result<()> {
        self.by(VecCursor::seek_first)
    }
    fn seek_last(&mut self) -> Result<()> {
        self.by(VecCursor::seek_last)
    }
    fn next(&mut self) -> Result<()> {
        self.by_from_here(VecCursor::next)
    }
    fn prev(&mut self) -> Result<()> {
        self.by_from_here(VecCursor::prev)
    }
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn entry(&self) -> EntryRef<'_> {
        self.at.as_ref().unwrap().as_ref()
    }
}

/// While sources grow, a scan stays in order and never misses an entry that existed from the start. A merge that
/// stepped its other sources back on a turn, instead of seeking, would return a late entry out of order.
#[test]
fn growth_during_a_scan_breaks_neither_order_nor_completeness() {
    for seed in 0..300 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut early = random.versions(60, 16);
        let late = early.split_off(30);
        let shared: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
        for entry in &early {
            shared[random.below(3) as usize].lock().unwrap().push(entry.clone());
        }
        let sources = shared.iter().map(|entries| Growing { entries: Arc::clone(entries), at: None }).collect();
        let mut merge = MergeCursor::new(sources);
        let mut late = late.into_iter();
        merge.seek_first().unwrap();
        for _ in 0..200 {
            if !merge.valid() {
                merge.seek(&random.key(16), random.number(60)).unwrap();
                continue;
            }
            let before = VecEntry::from(merge.entry());
            if let Some(entry) = late.next() {
                shared[random.below(3) as usize].lock().unwrap().push(entry);
            }
            let forward = random.below(2) == 0;
            if forward {
                merge.next().unwrap()
            } else {
                merge.prev().unwrap()
            }
            let after = merge.valid().then(|| VecEntry::from(merge.entry()));
            let passed = |entry: &VecEntry| {
                let order = entry.as_ref().order(&before.key, before.number);
                let beyond = after.as_ref().map(|after| entry.as_ref().order(&after.key, after.number));
                if forward {
                    order.is_gt() && beyond.is_none_or(|beyond| beyond.is_lt())
                } else {
                    order.is_lt() && beyond.is_none_or(|beyond| beyond.is_gt())
                }
            };
            assert!(!early.iter().any(passed), "an entry was skipped");
            if let Some(after) = &after {
                let order = after.as_ref().order(&before.key, before.number);
                assert!(if forward { order.is_gt() } else { order.is_lt() }, "out of order");
            }
        }
    }
}

#[test]
fn heads_sort_as_keys_do() {
    let mut random = Random(1);
    let mut keys: Vec<Vec<u8>> = (0..=20).flat_map(|length| [vec![0; length], vec![0xff; length]]).collect();
    for _ in 0..2000 {
        let length = random.below(21);
        keys.push((0..length).map(|_| random.below(3) as u8 * 127).collect());
    }
    keys.sort();
    for key in &keys {
        let mut padded = key.clone();
        padded.resize(16.max(key.len()), 0);
        assert_eq!(head(key), u128::from_be_bytes(padded[..16].try_into().unwrap()), "{key:?}");
    }
    assert!(keys.windows(2).all(|pair| head(&pair[0]) <= head(&pair[1])));
}

#[test]
fn no_sources_and_empty_sources() {
    let mut none: MergeCursor<VecCursor> = MergeCursor::new(Vec::new());
    none.seek_first().unwrap();
    assert!(!none.valid());
    let mut empty = MergeCursor::new(vec![VecCursor::new(Vec::new()); 3]);
    empty.seek_last().unwrap();
    assert!(!empty.valid());
    let one = VecCursor::new(vec![VecEntry::new(&[0xff; 16][..], 1, Kind::Put, "value")]);
    let mut merge = MergeCursor::new(vec![VecCursor::new(Vec::new()), one]);
    merge.seek_first().unwrap();
    assert!(merge.valid(), "the merge ended at a key whose head is that of an exhausted source");
}
