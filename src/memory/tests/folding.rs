//! Operands in memory: folds, the chains that snapshots force, and readers beside writers that fold.

use super::*;
use crate::memory::{BulkFill, FillSpace, Operands};
use crate::merge::operator::{Add, Append};
use crate::merge::{MergeOperator, MergeOperators};

/// Appends, and cannot join operands.
struct Words;

impl MergeOperator for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        Append.full_merge(key, base, operands, out)
    }
}

fn of(user_key: &[u8]) -> (KeyspaceId, &[u8], u64) {
    (KEYSPACE, user_key, key_hash(KEYSPACE, user_key))
}

/// Prepares an operand as a writer does: folded with what is there.
fn prepare_operand(memtable: &Memtable, user_key: &[u8], operand: &[u8], operator: &dyn MergeOperator) -> Prepared {
    let fold = memtable.fold(of(user_key), operand, operator);
    let mut prepared = prepare(memtable, of(user_key), Kind::Merge, operand);
    if let Some(fold) = fold {
        WRITER.with_borrow_mut(|writer| memtable.prepare_fold(writer, &mut prepared, &fold));
    }
    prepared
}

/// The value of a key at a number, by a get.
fn value(memtable: &Memtable, user_key: &[u8], at: u64, operator: &dyn MergeOperator) -> Option<Vec<u8>> {
    let (mut operands, mut base) = (Vec::new(), Vec::new());
    let all = (SequenceNumber(at), SequenceNumber::ZERO);
    let found = memtable.get_operands(of(user_key), all, &mut operands, &mut base);
    let has_base = found == Operands::Complete(Kind::Put);
    operands.reverse();
    folded(has_base.then_some(&base[..]), &operands, operator)
}

fn folded(base: Option<&[u8]>, operands: &[Vec<u8>], operator: &dyn MergeOperator) -> Option<Vec<u8>> {
    if operands.is_empty() {
        return base.map(<[u8]>::to_vec);
    }
    let (operands, mut out) = (operands.iter().map(Vec::as_slice).collect::<Vec<_>>(), Vec::new());
    operator.full_merge(b"", base, &operands, &mut out).unwrap();
    Some(out)
}

/// The values of all keys at a number, by a cursor's rows.
fn values(rows: &[Row], operator: &dyn MergeOperator) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut values = BTreeMap::new();
    for versions in rows.chunk_by(|one, other| one.0 == other.0) {
        let operands = versions.iter().take_while(|row| row.2 == Kind::Merge);
        let mut operands: Vec<Vec<u8>> = operands.map(|row| row.3.clone()).collect();
        let base = versions.get(operands.len()).filter(|row| row.2 == Kind::Put).map(|row| &row.3[..]);
        operands.reverse();
        if let Some(value) = folded(base, &operands, operator) {
            values.insert(versions[0].0[KeyspaceId::BYTES..].to_vec(), value);
        }
    }
    values
}

fn number(n: i64) -> [u8; 8] {
    n.to_le_bytes()
}

#[test]
fn a_counter_in_memory_is_one_version() {
    for base in [None, Some(Kind::Put), Some(Kind::Delete)] {
        let memtable = pool(1 << 20).take();
        if let Some(kind) = base {
            let start = if kind == Kind::Put { &number(100)[..] } else { b"" };
            place(&memtable, prepare(&memtable, of(b"k"), kind, start), 1, SequenceNumber::ZERO);
        }
        let bytes = memtable.bytes();
        for at in 2..1002 {
            let prepared = prepare_operand(&memtable, b"k", &number(3), &Add);
            place(&memtable, prepared, at, SequenceNumber::ZERO);
        }
        let sum = if base == Some(Kind::Put) { 3100 } else { 3000 };
        assert_eq!(value(&memtable, b"k", 5000, &Add), Some(number(sum).to_vec()));
        assert_eq!(memtable.entries(), 1, "{base:?}");
        assert!(memtable.bytes() < bytes + (64 << 10), "{base:?}: {} bytes", memtable.bytes() - bytes);
    }
}

#[test]
fn an_operand_whose_fold_is_outdated_is_placed_by_itself() {
    let memtable = pool(1 << 20).take();
    place(&memtable, prepare(&memtable, of(b"k"), Kind::Put, b"a"), 1, SequenceNumber::ZERO);
    let slow = prepare_operand(&memtable, b"k", b"3", &Append);
    place(&memtable, prepare(&memtable, of(b"k"), Kind::Put, b"b"), 2, SequenceNumber::ZERO);
    place(&memtable, slow, 3, SequenceNumber::ZERO);
    assert_eq!(value(&memtable, b"k", 9, &Append), Some(b"b3".to_vec()));
    let slow = prepare_operand(&memtable, b"k", b"5", &Append);
    place(&memtable, prepare_operand(&memtable, b"k", b"4", &Append), 4, SequenceNumber::ZERO);
    place(&memtable, slow, 5, SequenceNumber::ZERO);
    assert_eq!(value(&memtable, b"k", 9, &Append), Some(b"b345".to_vec()));
    // What is put above a chain of operands leaves nothing of it.
    place(&memtable, prepare(&memtable, of(b"k"), Kind::Put, b"c"), 6, SequenceNumber::ZERO);
    assert_eq!((value(&memtable, b"k", 9, &Append), memtable.entries()), (Some(b"c".to_vec()), 1));
}

/// The operands of a batch are placed as they are, and folded when it is committed; until then readers need what is below.
#[test]
fn a_batch_folds_its_operands_when_it_is_committed() {
    let memtable = pool(1 << 20).take();
    for (at, user_key) in [&b"a"[..], b"b", b"c"].iter().enumerate() {
        place(&memtable, prepare(&memtable, of(user_key), Kind::Merge, b"1"), at as u64 + 1, SequenceNumber::ZERO);
    }
    place(&memtable, prepare(&memtable, of(b"c"), Kind::Put, b"0"), 4, SequenceNumber::ZERO);
    let keys = [&b"a"[..], b"b", b"c", b"d"];
    let mut prepared: Vec<Prepared> =
        keys.iter().map(|user_key| prepare_operand(&memtable, user_key, b"2", &Append)).collect();
    WRITER.with_borrow_mut(|writer| {
        let state = memtable.batch_state(writer);
        for prepared in &mut prepared {
            memtable.place_pending(writer, prepared, SequenceNumber(5), state);
        }
        let seen = keys.map(|user_key| value(&memtable, user_key, 9, &Append));
        assert_eq!(seen, [Some(b"1".to_vec()), Some(b"1".to_vec()), Some(b"0".to_vec()), None]);
        memtable.commit(writer, state, prepared.iter_mut(), SequenceNumber(2));
    });
    let seen = keys.map(|user_key| value(&memtable, user_key, 9, &Append));
    assert_eq!(seen, [Some(b"12".to_vec()), Some(b"12".to_vec()), Some(b"02".to_vec()), Some(b"2".to_vec())]);
    // A snapshot at 2 needs the first operands of "a" and "b"; the put of "c" is gone with its fold.
    let at_snapshot = [&b"a"[..], b"b"].map(|user_key| value(&memtable, user_key, 2, &Append));
    assert_eq!(at_snapshot, [Some(b"1".to_vec()), Some(b"1".to_vec())]);
    assert_eq!(memtable.entries(), 6);
}

/// Puts, deletes, single and batched merges, snapshots that come and go, and version cleanup, against a map.
#[test]
fn snapshots_see_the_operands_up_to_them() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let operator: &dyn MergeOperator = if seed % 2 == 0 { &Append } else { &Words };
        let memtable = pool(1 << 20).take();
        let mut contents: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut live: BTreeMap<u64, BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
        let mut last = 0;
        for step in 0..500 {
            let newest_snapshot = SequenceNumber(live.last_key_value().map_or(0, |(number, _)| *number));
            let user_key = vec![b'k'; random.below(4)];
            last += 1;
            match random.below(16) {
                0 => {
                    live.insert(last, contents.clone());
                }
                1 => {
                    let dropped = live.keys().copied().nth(random.below(live.len().max(1)));
                    dropped.map(|number| live.remove(&number));
                }
                2 => {
                    let pins: Vec<SequenceNumber> = live.keys().copied().map(SequenceNumber).collect();
                    memtable.clean_versions(&pins, SequenceNumber(last), |_, change| change());
                }
                3 => {
                    place(&memtable, prepare(&memtable, of(&user_key), Kind::Delete, b""), last, newest_snapshot);
                    contents.remove(&user_key);
                }
                4 | 5 => {
                    let new = random.bytes(3);
                    place(&memtable, prepare(&memtable, of(&user_key), Kind::Put, &new), last, newest_snapshot);
                    contents.insert(user_key, new);
                }
                6 | 7 => {
                    let mut prepared = Vec::new();
                    for user_key in [&b""[..], b"k", b"kk"] {
                        prepared.push(prepare_operand(&memtable, user_key, &[step as u8], operator));
                        contents.entry(user_key.to_vec()).or_default().push(step as u8);
                    }
                    WRITER.with_borrow_mut(|writer| {
                        let state = memtable.batch_state(writer);
                        let number = SequenceNumber(last);
                        prepared.iter_mut().for_each(|one| memtable.place_pending(writer, one, number, state));
                        memtable.commit(writer, state, prepared.iter_mut(), newest_snapshot);
                    });
                    prepared.iter().filter_map(Prepared::retaining_node).for_each(|node| memtable.note_retained(node));
                }
                8 => {
                    // From a thread that had prepared in another generation.
                    let entry = (of(&user_key), Kind::Merge, &[step as u8][..]);
                    memtable.place_without_writer([entry].into_iter(), Default::default(), SequenceNumber(last));
                    contents.entry(user_key).or_default().push(step as u8);
                }
                _ => {
                    place(
                        &memtable,
                        prepare_operand(&memtable, &user_key, &[step as u8], operator),
                        last,
                        newest_snapshot,
                    );
                    contents.entry(user_key).or_default().push(step as u8);
                }
            }
            let newest = (u64::MAX >> 8, &contents);
            for (at, expected) in live.iter().map(|(at, expected)| (*at, expected)).chain([newest]) {
                for length in 0..4 {
                    let user_key = vec![b'k'; length];
                    let found = value(&memtable, &user_key, at, operator);
                    assert_eq!(found.as_ref(), expected.get(&user_key), "seed {seed}, step {step}, {length} at {at}");
                }
                if step % 50 == 0 {
                    let mut cursor = memtable.cursor_at(SequenceNumber(at));
                    let rows = forward(&mut cursor);
                    assert_eq!(values(&rows, operator), *expected, "seed {seed}, step {step}, scan at {at}");
                    assert_eq!(backward(&mut cursor), rows, "seed {seed}, step {step}, backward at {at}");
                }
            }
        }
    }
}

#[test]
fn operands_that_cannot_be_joined_make_a_chain_that_is_noticed() {
    let memtable = pool(1 << 20).take();
    let mut long = Vec::new();
    for at in 1..=20 {
        let mut prepared = prepare_operand(&memtable, b"k", b"x", &Words);
        WRITER
            .with_borrow_mut(|writer| memtable.place(writer, &mut prepared, SequenceNumber(at), SequenceNumber::ZERO));
        long.extend(prepared.ends_long_chain().then_some(at));
    }
    assert_eq!(long, [16, 17, 18, 19, 20]);
    // A value in their place ends it, and later operands are folded with it.
    place(&memtable, prepare(&memtable, of(b"k"), Kind::Put, b"all"), 21, SequenceNumber::ZERO);
    for at in 22..60 {
        place(&memtable, prepare_operand(&memtable, b"k", b"x", &Words), at, SequenceNumber::ZERO);
    }
    assert_eq!(memtable.entries(), 1);
}

/// A reader never sees a counter fall, nor one that lacks an operand: what it reads of a chain was there at one moment.
#[test]
fn readers_beside_writers_that_fold() {
    let memtable = pool(4 << 20).take();
    place(&memtable, prepare(&memtable, of(b"k"), Kind::Merge, &number(0)), 1, SequenceNumber::ZERO);
    let latch = crate::util::sync::Mutex::new(1_u64);
    let ended = crate::util::sync::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                let (memtable, latch) = (&memtable, &latch);
                scope.spawn(move || {
                    for round in 0..4000 {
                        let prepared = prepare_operand(memtable, b"k", &number(1), &Add);
                        let mut last = latch.lock();
                        *last += 1;
                        // Now and then it is as if there were a snapshot, so that a chain grows, and then none.
                        let snapshot = if (round + thread) % 7 < 3 { *last } else { 0 };
                        place(memtable, prepared, *last, SequenceNumber(snapshot));
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut newest = 0;
            // At least once, also on a machine that runs this thread last.
            loop {
                let is_last = ended.load(Ordering::Acquire);
                // Every number up to this one is placed: number n makes the sum n - 1.
                let at_least = *latch.lock() as i64 - 1;
                let found = value(&memtable, b"k", u64::MAX >> 8, &Add).unwrap();
                let found = i64::from_le_bytes(found.try_into().unwrap());
                assert!(found >= newest.max(at_least), "{found} after {newest} and {at_least}");
                newest = found;
                if is_last {
                    return;
                }
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        ended.store(true, Ordering::Release);
        reader.join().unwrap();
    });
    assert_eq!(value(&memtable, b"k", u64::MAX >> 8, &Add), Some(number(8000).to_vec()));
}

/// What the log has of a key becomes one version where the operator and range tombstones permit it.
#[test]
fn a_bulk_fill_folds_operands() {
    let mut space = FillSpace::default();
    let fill = |operator: Option<Arc<dyn MergeOperator>>, space: &mut FillSpace| {
        let operators = MergeOperators::new(operator);
        let mut fill = BulkFill::new(pool(1 << 20).take(), space, &operators);
        let mut last = 0;
        let mut add = |fill: &mut BulkFill<'_>, user_key: &[u8], kind, value: &[u8]| {
            last += 1;
            fill.add(KEYSPACE, user_key, kind, value, SequenceNumber(last));
        };
        for _ in 0..10 {
            add(&mut fill, b"alone", Kind::Merge, b"1");
        }
        for (kind, value) in [(Kind::Put, b"p"), (Kind::Merge, b"q"), (Kind::Merge, b"r")] {
            add(&mut fill, b"based", kind, value);
        }
        add(&mut fill, b"deleted", Kind::Delete, b"");
        add(&mut fill, b"deleted", Kind::Merge, b"s");
        add(&mut fill, b"range", Kind::Put, b"t");
        // Hidden: there is nothing to fold.
        add(&mut fill, b"range/", Kind::Merge, b"w");
        let start = key::encoded(KEYSPACE, b"range");
        let end = key::encoded(KEYSPACE, b"rangf");
        fill.add_range_tombstone(crate::merge::RangeTombstone { start, end, number: SequenceNumber(100) });
        fill.add(KEYSPACE, b"range", Kind::Merge, b"u", SequenceNumber(101));
        fill.add(KEYSPACE, b"range", Kind::Merge, b"v", SequenceNumber(102));
        fill.finish()
    };
    let found = |memtable: &Arc<Memtable>| {
        let rows = forward(&mut memtable.cursor());
        let show = |(key, number, kind, value): Row| {
            let (key, value) = (key[KeyspaceId::BYTES..].escape_ascii().to_string(), value.escape_ascii().to_string());
            format!("{key} {number} {kind:?} {value}")
        };
        rows.into_iter().map(show).collect::<Vec<_>>()
    };
    let folded = fill(Some(Arc::new(Append)), &mut space);
    let all =
        ["alone 10 Merge 1111111111", "based 13 Put pqr", "deleted 15 Put s", "range 102 Put uv", "range/ 17 Merge w"];
    assert_eq!((found(&folded), folded.entries()), (all.map(String::from).to_vec(), 5));
    let words = fill(Some(Arc::new(Words)), &mut space);
    assert_eq!((found(&words)[10..].to_vec(), words.entries()), (all[1..].iter().map(|s| s.to_string()).collect(), 14));
    assert_eq!(fill(None, &mut space).entries(), 19);
}
