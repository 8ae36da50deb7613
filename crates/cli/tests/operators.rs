//! Stores with operands that the command line cannot merge: of an operator that it does not have, or that the operator
//! refuses.

use crate::support::{Done, Store};
use alluvium::merge_operators::Associative;
use alluvium::{Db, KeyspaceOptions, Options};

fn longer() -> impl alluvium::MergeOperator {
    Associative::new("example.longer", |one: &[u8], other: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(if other.len() > one.len() { other } else { one });
    })
}

/// A store of another program. The default keyspace and the keyspace "names" have its operator, the key "o" has operands.
fn foreign() -> Store {
    let store = Store::new();
    let options = Options::new().memory_budget(16 << 20).merge_operator(longer());
    let db = Db::open(store.path(), options).unwrap();
    let names = db.keyspace("names", KeyspaceOptions::new().merge_operator(longer())).unwrap();
    for keyspace in [&*db, &names] {
        keyspace.put("a", "plain").unwrap();
        keyspace.merge("o", "Po").unwrap();
        keyspace.merge("o", "Danube").unwrap();
        keyspace.put("z", "plain").unwrap();
    }
    db.close().unwrap();
    store
}

/// What the operator of the other program makes of the key "o" of a keyspace.
fn merged(store: &Store, keyspace: &str) -> Option<Vec<u8>> {
    let db = Db::open(store.path(), Options::new().memory_budget(16 << 20).merge_operator(longer())).unwrap();
    let options = KeyspaceOptions::new().merge_operator(longer());
    let options = if keyspace == "default" { KeyspaceOptions::new() } else { options };
    let value = db.keyspace(keyspace, options).unwrap().get("o").unwrap();
    db.close().unwrap();
    value
}

/// Regression test: every command that writes failed, and the list of keyspaces showed no operator.
#[test]
fn an_operator_of_another_program_is_no_obstacle_but_for_its_operands() {
    let store = foreign();
    let listed = store.run(&["keyspaces", "--json"]).expect(0).json();
    assert_eq!(listed["keyspaces"][0]["merge_operator"], "example.longer");
    assert!(store.run(&["keyspaces"]).expect(0).text().contains("example.longer"));
    for keyspace in ["default", "names"] {
        let run = |arguments: &[&str]| -> Done { store.run(&[arguments, &["--keyspace", keyspace]].concat()) };
        assert_eq!(run(&["get", "a"]).expect(0).text(), "plain\n");
        let no_operator = "the key \"o\" has operands of the merge operator \"example.longer\", which the command line does not \
                           have";
        run(&["get", "o"]).refused(2, no_operator);
        run(&["merge", "o", "Rhine"]).refused(2, "does not have the operator \"example.longer\"");
        run(&["put", "b", "new"]).expect(0);
        run(&["delete", "a"]).expect(0);
        run(&["compact"]).expect(0);
        assert_eq!(run(&["scan", "--prefix", "b"]).expect(0).text(), "b\tnew\n");
        for (arguments, printed) in [
            (&["scan"][..], "b\tnew\nz\tplain\n"),
            (&["scan", "--reverse"], "z\tplain\nb\tnew\n"),
            (&["dump"], "b\tnew\nz\tplain\n"),
        ] {
            let done = run(arguments).expect(1);
            assert_eq!(done.text(), printed);
            assert!(done.err.contains(&format!("alluvium: left out: {no_operator}")), "{done:?}");
            assert!(
                done.err
                    .ends_with("1 key was left out, because operands cannot be merged; everything else was printed\n")
            );
        }
        // The operands are still there, and what replaces them is read by everyone.
        assert_eq!(merged(&store, keyspace).as_deref(), Some(&b"Danube"[..]));
        run(&["put", "o", "short"]).expect(0);
        assert_eq!(run(&["get", "o"]).expect(0).text(), "short\n");
        assert_eq!(run(&["dump"]).expect(0).text(), "b\tnew\no\tshort\nz\tplain\n");
    }
    store.run(&["keyspaces", "set", "names", "--durability", "sync"]).expect(0);
    store.run(&["keyspaces", "create", "names", "--durability", "sync"]).expect(0);
    store.run(&["keyspaces", "create", "names", "--operator", "add"]).refused(2, "leave --operator out");
    store.feed(&["load", "--keyspace", "names"], b"c\t1\n").expect(0);
    store.run(&["keyspaces", "clear", "names"]).expect(0);
    assert_eq!(store.run(&["dump", "--keyspace", "names"]).expect(0).text(), "");
    store.run(&["keyspaces", "drop", "names"]).expect(0);
    assert_eq!(merged(&store, "default").as_deref(), Some(&b"short"[..]));
}

/// Regression test: the first such value stopped `scan` and `dump`.
#[test]
fn a_value_that_the_operator_refuses_does_not_hide_the_others() {
    let store = Store::new();
    let keys: Vec<String> = (0..40).map(|key| format!("{key:02}")).collect();
    for key in ["00", "39"].into_iter().chain(keys[10..23].iter().map(String::as_str)) {
        store.put(key, "text");
    }
    let integer = 1_i64.to_le_bytes();
    let db =
        Db::open(store.path(), Options::new().memory_budget(16 << 20).merge_operator(alluvium::merge_operators::Add));
    let db = db.unwrap();
    keys.iter().for_each(|key| db.merge(key, integer).unwrap());
    db.close().unwrap();
    let sound: Vec<&str> = keys
        .iter()
        .map(String::as_str)
        .filter(|key| !matches!(*key, "00" | "39") && !("10".."23").contains(key))
        .collect();
    let keys_of = |done: &Done| -> Vec<String> {
        done.text().lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
    };
    for arguments in [&["scan"][..], &["scan", "--reverse"], &["dump"], &["dump", "--format", "csv"]] {
        let done = store.run(arguments).expect(1);
        let mut printed: Vec<String> = keys_of(&done).iter().map(|key| key.trim_matches('"')[..2].to_owned()).collect();
        printed.sort();
        assert_eq!(printed, sound, "{arguments:?}");
        assert_eq!(done.err.matches("left out: the operands of the key").count(), 10, "{done:?}");
        assert!(done.err.contains("the operator \"alluvium.add\": 4 bytes are no integer"), "{done:?}");
        assert!(
            done.err
                .ends_with("15 keys were left out, because operands cannot be merged; everything else was printed\n")
        );
    }
    let ten = store.run(&["scan", "--from", "05", "--to", "24", "--limit", "5"]).expect(0);
    assert_eq!(keys_of(&ten), ["05", "06", "07", "08", "09"]);
    let back = store.run(&["scan", "--from", "05", "--to", "25", "--reverse", "--limit", "3"]).expect(1);
    assert_eq!(keys_of(&back), ["24", "23", "09"]);
}
