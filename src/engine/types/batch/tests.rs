//! Tests of batches: their operations, and what these make together.

use super::*;
use crate::engine::types::effects::{KeyWrite, UnjoinedOperands};
use crate::engine::types::keyspace_info::DEFAULT_NAME;
use crate::merge::MergeOperator;
use crate::merge::MergeOperators;
use crate::merge::operator::Append;

fn value(write: &KeyWrite) -> Option<&[u8]> {
    match write.change.as_bytes() {
        KeyChange::Put(value) => Some(value),
        KeyChange::Delete => None,
        KeyChange::Merge(_) => panic!("an operand is left"),
    }
}

/// Appends, and cannot join operands.
struct Words;

impl MergeOperator for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        base.iter().chain(operands).for_each(|word| out.extend_from_slice(word));
        Ok(())
    }
}

/// Puts, deletes, merges and range deletes of a key before and after each other.
#[test]
fn the_debug_form_has_counts_and_no_data() {
    let mut batch = WriteBatch::new();
    batch.put("elbe", "North Sea").delete("oder");
    assert_eq!(format!("{batch:?}"), "WriteBatch { operations: 2, bytes: 17, .. }");
}

#[test]
fn operands_are_folded_with_what_is_before_them() {
    let mut batch = WriteBatch::new();
    batch.merge("a", "1").merge("a", "2").put("b", "1").merge("b", "2").delete("c").merge("c", "3");
    batch.merge("d", "1").put("d", "2").merge("e", "1").delete_range("e".."f").merge("e", "2").merge("e", "3");
    batch.put("f", "1").delete_range("f"..).merge("g", "1").merge("h", "1").delete_range("h"..);
    let joined = |key: &str, change| KeyWrite { key: UserKey::of_default(key).to_owned(), change };
    let put = |key, value: &str| joined(key, KeyChange::Put(value.into()));
    let all = [put("b", "12"), put("c", "3"), put("d", "2"), put("e", "23"), put("g", "1")];
    let (effects, unjoined) = batch.resolve(&MergeOperators::new(Some(Arc::new(Append)))).unwrap();
    assert_eq!(effects.writes[0], joined("a", KeyChange::Merge("12".into())));
    assert_eq!((&effects.writes[1..], unjoined.len()), (&all[..], 0));
    // Without a way to join operands, a key with several of them is left to be read.
    let (effects, unjoined) = batch.resolve(&MergeOperators::new(Some(Arc::new(Words)))).unwrap();
    assert_eq!(effects.writes, all);
    assert_eq!(
        unjoined,
        [UnjoinedOperands { key: UserKey::of_default("a").to_owned(), operands: vec!["1".into(), "2".into()] }]
    );
}

#[test]
fn operands_that_cannot_be_joined_are_replaced_by_later_writes() {
    let mut batch = WriteBatch::new();
    batch.merge("a", "1").merge("a", "2").merge("a", "3").put("a", "4").merge("a", "5");
    batch.merge("b", "1").merge("b", "2").delete("b");
    batch.merge("c", "1").merge("c", "2").delete_range("c".."d").merge("c", "3");
    batch.merge("d", "1").merge("d", "2").delete_range("d"..);
    let (effects, unjoined) = batch.resolve(&MergeOperators::new(Some(Arc::new(Words)))).unwrap();
    let view: Vec<_> = effects.writes.iter().map(|write| (&write.key.bytes[..], value(write))).collect();
    assert_eq!(view, [(&b"a"[..], Some(&b"45"[..])), (b"b", None), (b"c", Some(b"3"))]);
    assert!(unjoined.is_empty());
}

#[test]
fn append_adds_at_the_end() {
    let (mut batch, mut other) = (WriteBatch::new(), WriteBatch::new());
    batch.put("a", "1");
    other.delete("a").put("b", "2");
    batch.append(&other).append(&WriteBatch::new());
    assert_eq!((batch.len(), batch.bytes(), other.len()), (3, 5, 2));
    assert_eq!(
        batch.iter().collect::<Vec<_>>(),
        [
            Operation::Put { keyspace: DEFAULT_NAME, key: b"a", value: b"1" },
            Operation::Delete { keyspace: DEFAULT_NAME, key: b"a" },
            Operation::Put { keyspace: DEFAULT_NAME, key: b"b", value: b"2" }
        ]
    );
}

#[test]
fn pairs_become_puts_in_their_order() {
    let pairs = [("b", vec![1]), ("a", vec![2]), ("b", vec![3])];
    let mut batch: WriteBatch = pairs.iter().map(|(key, value)| (key, value)).collect();
    assert_eq!(batch, *WriteBatch::new().put("b", [1]).put("a", [2]).put("b", [3]));
    batch.delete("a").extend([(String::from("c"), b"4")]);
    let mut operations = (&batch).into_iter();
    assert_eq!(operations.len(), 5);
    assert_eq!(operations.next_back(), Some(Operation::Put { keyspace: DEFAULT_NAME, key: b"c", value: b"4" }));
    assert_eq!(operations.next_back(), Some(Operation::Delete { keyspace: DEFAULT_NAME, key: b"a" }));
    assert_eq!(operations.next(), Some(Operation::Put { keyspace: DEFAULT_NAME, key: b"b", value: &[1] }));
    assert_eq!(operations.by_ref().count(), 2);
    assert_eq!((operations.next(), operations.next_back()), (None, None));
}

#[test]
fn the_last_operation_on_a_key_wins() {
    let mut batch = WriteBatch::new();
    batch.put("b", "1").put("a", "1").delete("b").put("a", "2").put("c", "").delete("d").put("d", "4");
    let resolved = batch.resolve(&MergeOperators::default()).unwrap().0;
    assert!(resolved.deleted.is_empty());
    let view: Vec<_> = resolved.writes.iter().map(|op| (&op.key.bytes[..], value(op))).collect();
    assert_eq!(
        view,
        vec![
            (&b"a"[..], Some(&b"2"[..])),
            (&b"b"[..], None),
            (&b"c"[..], Some(&b""[..])),
            (&b"d"[..], Some(&b"4"[..]))
        ]
    );
}

#[test]
fn a_range_delete_hides_what_came_before_it() {
    let mut batch = WriteBatch::new();
    batch.put("a", "1").put("b", "1").delete("c").put("d", "1");
    batch.delete_range("b".."d").put("c", "2").delete_range("e"..).delete_range("c\0"..="c1").put("f", "2");
    let resolved = batch.resolve(&MergeOperators::default()).unwrap().0;
    let view: Vec<_> = resolved.writes.iter().map(|write| (&write.key.bytes[..], value(write))).collect();
    let put = |key: &'static str, value: &'static str| (key.as_bytes(), Some(value.as_bytes()));
    assert_eq!(view, [put("a", "1"), put("c", "2"), put("d", "1"), put("f", "2")]);
    let range = |start: &str, end: Option<&str>| UserRange {
        keyspace: KeyspaceId::DEFAULT,
        start: start.into(),
        end: end.map(Into::into),
    };
    assert_eq!(resolved.deleted, [range("b", Some("d")), range("e", None)]);
}

#[test]
fn a_batch_may_have_nothing_but_empty_ranges() {
    let mut batch = WriteBatch::new();
    batch.delete_range("b".."a").delete_range("a".."a");
    assert_eq!(batch.len(), 2);
    assert!(batch.resolve(&MergeOperators::default()).unwrap().0.is_empty());
}
