//! What a reader sees, against a map built directly from the rule.

use super::{Random, sorted};
use crate::merge::vec_cursor::{VecCursor, VecEntry};
use crate::merge::{Cursor, EntryRef, Limit, MergeCursor, PinnedValue, Rows, VisibleCursor, Visitor};
use crate::util::{Error, Kind, Result, SequenceNumber};
use std::ops::ControlFlow;

/// The live keys of a snapshot within the bounds, in order.
fn model(
    entries: &[VecEntry],
    (at, expired): (SequenceNumber, SequenceNumber),
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Vec<VecEntry> {
    let mut seen: Vec<VecEntry> = Vec::new();
    let mut decided: Option<&[u8]> = None;
    for entry in entries {
        let inside = &entry.key[..] >= lower && upper.is_none_or(|upper| &entry.key[..] < upper);
        if inside && entry.number <= at && decided != Some(&entry.key[..]) {
            decided = Some(&entry.key);
            if entry.kind != Kind::Delete && entry.number > expired {
                seen.push(entry.clone());
            }
        }
    }
    seen
}

fn assert_position(cursor: &VisibleCursor<impl Cursor>, model: &[VecEntry], at: Option<usize>) {
    assert_eq!(cursor.valid(), at.is_some());
    if let Some(at) = at {
        assert_eq!(cursor.entry(), model[at].as_ref());
    }
}

fn move_randomly(
    random: &mut Random,
    cursor: &mut VisibleCursor<impl Cursor>,
    model: &[VecEntry],
    at: Option<usize>,
) -> Result<Option<usize>> {
    let within = |at: usize| (at < model.len()).then_some(at);
    match (random.below(14), at) {
        (12.., Some(at)) => read_ahead(random, cursor, model, at).map(within),
        (0, _) => cursor.seek_first().map(|()| within(0)),
        (1, _) => cursor.seek_last().map(|()| model.len().checked_sub(1)),
        (2, _) | (2..7, None) => {
            let key = random.key(16);
            cursor.seek(&key).map(|()| within(model.partition_point(|entry| entry.key < key)))
        }
        (3, _) | (7.., None) => {
            let key = random.key(16);
            cursor.seek_for_prev(&key).map(|()| model.partition_point(|entry| entry.key <= key).checked_sub(1))
        }
        (4..8, Some(at)) => cursor.next().map(|()| within(at + 1)),
        (_, Some(at)) => cursor.prev().map(|()| at.checked_sub(1)),
    }
}

/// Reads rows ahead, and steps behind them. Returns the position of the model.
fn read_ahead(
    random: &mut Random,
    cursor: &mut VisibleCursor<impl Cursor>,
    model: &[VecEntry],
    at: usize,
) -> Result<usize> {
    let (count, mut rows) = (random.below(6) as usize, Rows::default());
    let result = cursor.read_ahead(count, &mut rows);
    let mut found = at;
    while rows.step() {
        found += 1;
        assert_eq!((rows.key(), rows.value()), (&model[found].key[..], &model[found].value[..]), "behind {at}");
    }
    assert!(found - at <= count);
    result?;
    if cursor.valid() {
        assert_eq!(found, at, "rows were read, and the cursor has not moved");
    } else {
        cursor.next()?;
        found += 1;
    }
    Ok(found)
}

/// Entries, the numbers of the snapshot and of what has expired, and bounds.
type Case = (Vec<VecEntry>, (SequenceNumber, SequenceNumber), Vec<u8>, Option<Vec<u8>>);

/// With few keys, chains of versions are far longer than what is skipped step by step.
fn case(random: &mut Random) -> Case {
    let (count, space) = (random.below(120), random.below(16) + 1);
    let entries = sorted(random.versions(count, space));
    let at = random.number(count + 1);
    let lower = if random.below(2) == 0 { Vec::new() } else { random.key(16) };
    let upper = (random.below(2) == 0).then(|| random.key(16));
    let expired = if random.below(2) == 0 { SequenceNumber::ZERO } else { random.number(count + 1) };
    (entries, (at, expired), lower, upper)
}

#[test]
fn random_movements_match_the_rule() {
    for seed in 0..2000 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (entries, at, lower, upper) = case(&mut random);
        let model = model(&entries, at, &lower, upper.as_deref());
        let mut sources = vec![Vec::new(); random.below(4) as usize + 1];
        for entry in entries {
            let source = random.below(sources.len() as u64) as usize;
            sources[source].push(entry);
        }
        let merge = MergeCursor::new(sources.into_iter().map(VecCursor::new).collect());
        let mut cursor = VisibleCursor::new(merge, at.0, lower, upper).expiring(at.1);
        let mut stands = None;
        for _ in 0..60 {
            stands = move_randomly(&mut random, &mut cursor, &model, stands).unwrap();
            assert_position(&cursor, &model, stands);
        }
    }
}

#[test]
fn after_an_error_the_cursor_is_unpositioned_until_a_seek() {
    let mut failures = 0;
    for seed in 0..700 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let (entries, at, lower, upper) = case(&mut random);
        let model = model(&entries, at, &lower, upper.as_deref());
        let inner = VecCursor::new(entries).failing_after(random.below(100) as u32);
        let mut cursor = VisibleCursor::new(inner, at.0, lower, upper).expiring(at.1);
        let mut stands = None;
        for _ in 0..100 {
            stands = move_randomly(&mut random, &mut cursor, &model, stands).unwrap_or_else(|_| {
                failures += 1;
                None
            });
            assert_position(&cursor, &model, stands);
        }
    }
    assert!(failures > 300, "only {failures} failures occurred");
}

#[test]
fn unexpected_kinds_are_errors_in_both_directions() {
    for kind in [Kind::RangeDelete, Kind::Void, Kind::Batch] {
        let entries = vec![
            VecEntry::new("a", 1, Kind::Put, "1"),
            VecEntry::new("b", 3, kind, "?"),
            VecEntry::new("b", 2, Kind::Put, "2"),
            VecEntry::new("c", 4, Kind::Put, "4"),
        ];
        let mut cursor = VisibleCursor::new(VecCursor::new(entries.clone()), SequenceNumber(9), Vec::new(), None);
        cursor.seek_first().unwrap();
        assert!(matches!(cursor.next(), Err(Error::Corruption { .. })));
        assert!(!cursor.valid());
        cursor.seek_last().unwrap();
        assert!(matches!(cursor.prev(), Err(Error::Corruption { .. })));
        assert!(!cursor.valid());
        let mut before = VisibleCursor::new(VecCursor::new(entries), SequenceNumber(2), Vec::new(), None);
        before.seek(b"b").unwrap();
        assert_eq!(before.entry().value, b"2", "a snapshot before it must not see it");
    }
}

/// Counts movements, to check the bound on the cost of a key with many versions.
struct Counting(VecCursor, std::cell::Cell<u32>);

impl Cursor for Counting {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.1.set(self.1.get() + 1);
        self.0.seek(key, number)
    }
    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.1.set(self.1.get() + 1);
        self.0.seek_for_prev(key, number)
    }
    fn seek_first(&mut self) -> Result<()> {
        self.0.seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        self.0.seek_last()
    }
    fn next(&mut self) -> Result<()> {
        self.1.set(self.1.get() + 1);
        self.0.next()
    }
    fn prev(&mut self) -> Result<()> {
        self.1.set(self.1.get() + 1);
        self.0.prev()
    }
    fn valid(&self) -> bool {
        self.0.valid()
    }
    fn entry(&self) -> crate::merge::EntryRef<'_> {
        self.0.entry()
    }
}

#[test]
fn a_key_with_many_versions_costs_a_bounded_number_of_movements() {
    let mut entries: Vec<_> = (2..10_000).map(|number| VecEntry::new("b", number, Kind::Put, "value")).collect();
    entries.push(VecEntry::new("a", 1, Kind::Put, "value"));
    entries.push(VecEntry::new("c", 10_000, Kind::Put, "value"));
    for at in [5_000, 20_000] {
        let inner = Counting(VecCursor::new(entries.clone()), std::cell::Cell::new(0));
        let mut cursor = VisibleCursor::new(inner, SequenceNumber(at), Vec::new(), None);
        cursor.seek_first().unwrap();
        cursor.next().unwrap();
        assert_eq!(cursor.entry().number.0, at.min(9_999));
        cursor.next().unwrap();
        assert_eq!(cursor.valid(), at > 5_000);
        cursor.seek_last().unwrap();
        if at > 5_000 {
            cursor.prev().unwrap();
        }
        assert_eq!(cursor.entry().number.0, at.min(9_999));
        cursor.prev().unwrap();
        assert_eq!(cursor.entry().key, b"a");
        assert!(cursor.inner().1.get() < 200, "{} movements", cursor.inner().1.get());
    }
}

/// A boxed cursor once did not pass `note_untaken` on, so the tree's mean scan length counted rows that no user read.
#[test]
fn boxed_cursors_pass_everything_on() {
    #[derive(Default)]
    struct Seen(std::sync::Arc<std::sync::Mutex<Vec<&'static str>>>);
    impl Seen {
        fn note<T>(&self, what: &'static str, value: T) -> T {
            self.0.lock().unwrap().push(what);
            value
        }
    }
    impl Cursor for Seen {
        fn seek(&mut self, _: &[u8], _: SequenceNumber) -> Result<()> {
            self.note("seek", Ok(()))
        }
        fn seek_for_prev(&mut self, _: &[u8], _: SequenceNumber) -> Result<()> {
            self.note("seek_for_prev", Ok(()))
        }
        fn seek_first(&mut self) -> Result<()> {
            self.note("seek_first", Ok(()))
        }
        fn seek_last(&mut self) -> Result<()> {
            self.note("seek_last", Ok(()))
        }
        fn next(&mut self) -> Result<()> {
            self.note("next", Ok(()))
        }
        fn prev(&mut self) -> Result<()> {
            self.note("prev", Ok(()))
        }
        fn pass(&mut self, _: Limit<'_>, _: &mut dyn Visitor) -> Result<ControlFlow<()>> {
            self.note("pass", Ok(ControlFlow::Continue(())))
        }
        fn rest(&mut self) {
            self.note("rest", ());
        }
        fn renew(&mut self, _: SequenceNumber) {
            self.note("renew", ());
        }
        fn valid(&self) -> bool {
            self.note("valid", false)
        }
        fn entry(&self) -> EntryRef<'_> {
            self.note("entry", EntryRef { key: b"", number: SequenceNumber::ZERO, kind: Kind::Put, value: b"" })
        }
        fn key(&self) -> &[u8] {
            self.note("key", b"")
        }
        fn covering(&self, _: &[u8], at: SequenceNumber) -> SequenceNumber {
            self.note("covering", at)
        }
        fn note_untaken(&mut self, _: u64) {
            self.note("note_untaken", ());
        }
        fn pin_value(&self) -> Option<PinnedValue> {
            self.note("pin_value", None)
        }
    }
    fn call_all(cursor: &mut impl Cursor) {
        let number = SequenceNumber::ZERO;
        let mut visitor = |_: EntryRef<'_>| ControlFlow::Break(());
        let moves =
            [cursor.seek(b"", number), cursor.seek_for_prev(b"", number), cursor.seek_first(), cursor.seek_last()];
        assert!(moves.iter().all(Result::is_ok) && cursor.next().is_ok() && cursor.prev().is_ok());
        assert!(cursor.pass(Limit::NONE, &mut visitor).unwrap().is_continue());
        cursor.rest();
        cursor.renew(number);
        cursor.note_untaken(1);
        assert!(!cursor.valid() && cursor.entry().key.is_empty() && cursor.key().is_empty());
        assert!(cursor.pin_value().is_none());
        assert_eq!(cursor.covering(b"", number), number);
    }
    let (mut plain, inner) = (Seen::default(), Seen::default());
    let seen = std::sync::Arc::clone(&inner.0);
    call_all(&mut plain);
    let mut boxed: Box<dyn Cursor> = Box::new(inner);
    call_all(&mut boxed);
    assert_eq!(*seen.lock().unwrap(), *plain.0.lock().unwrap());
}
