//! Keyspaces: which options an opening takes.

use super::{adding, contents, keyspace, memory, number, open, tiny};
use alluvium::{Error, KeyspaceOptions, ReadOnlyDb};
use std::sync::Arc;
use std::time::Duration;

/// Regression test: a reader refused an operator that a writer takes.
#[test]
fn a_reader_takes_an_operator_for_a_keyspace_without_one_as_a_writer_does() {
    let storage = memory();
    let db = open(&storage);
    keyspace(&db, "plain").put("k", number(1)).unwrap();
    db.keyspace("aging", KeyspaceOptions::new().expiry(Duration::from_secs(3600))).unwrap();
    let reader = ReadOnlyDb::open_with(Arc::clone(&storage), tiny()).unwrap();
    let plain = reader.keyspace("plain", adding()).unwrap().unwrap();
    assert_eq!(plain.get("k").unwrap(), Some(number(1).to_vec()));
    let refused = [reader.keyspace("aging", adding()).unwrap_err(), db.keyspace("aging", adding()).unwrap_err()];
    assert!(refused.iter().all(|error| matches!(error, Error::InvalidArgument(_))), "{refused:?}");
    // The writer's first operands come later.
    db.keyspace("plain", adding()).unwrap().merge("k", number(2)).unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.keyspace("plain", adding()).unwrap().unwrap().get("k").unwrap(), Some(number(3).to_vec()));
}

#[test]
fn a_keyspace_is_only_created_if_that_is_wanted() {
    let db = open(&memory());
    let existing = || KeyspaceOptions::new().create_if_missing(false);
    let refused = |names: &[&str]| match db.keyspace("users", existing()) {
        Err(Error::NoKeyspace { keyspace, existing }) => keyspace == "users" && existing == names,
        _ => false,
    };
    assert!(refused(&[]));
    keyspace(&db, "emails");
    assert!(refused(&["emails"]) && db.keyspace_names().unwrap() == ["emails"]);
    let users = keyspace(&db, "users");
    users.put("a", "1").unwrap();
    assert_eq!(contents(&db.keyspace("users", existing()).unwrap()), ["a=1"]);
    db.keyspace("default", existing()).unwrap();
    users.set_options(existing()).unwrap();
    assert!(db.drop_keyspace("users").unwrap() && refused(&["emails"]));
}
