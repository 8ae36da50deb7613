//! What `Db::latencies` says: each call counts once, under its kind.

use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Call, Db, Latencies, MemoryComponent, Options, WriteBatch, merge_operators::Add};
use std::sync::Arc;
use std::time::Duration;

fn counts(latencies: &Latencies) -> [u64; 5] {
    Call::ALL.map(|call| latencies.get(call).map_or(0, |latency| latency.count))
}

#[test]
fn each_call_counts_once() {
    let options = Options::new().latencies(true).merge_operator(Add).memory_budget(1 << 20);
    let db = DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), options).unwrap();
    let expect = |what: &str, expected: [u64; 5], call: &dyn Fn()| {
        db.reset_latencies();
        call();
        assert_eq!(counts(&db.latencies().unwrap()), expected, "{what}: {}", db.latencies().unwrap());
    };
    let number = 1_i64.to_le_bytes();
    expect("nothing", [0; 5], &|| ());
    expect("put", [0, 1, 0, 0, 0], &|| db.put("a", number).unwrap());
    expect("delete", [0, 1, 0, 0, 0], &|| db.delete("b").unwrap());
    expect("range delete", [0, 1, 0, 0, 0], &|| db.delete_range("x".."y").unwrap());
    expect("merge", [0, 1, 0, 0, 0], &|| db.merge("c", number).unwrap());
    let batch = |operand: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put("d", "1").delete("b").merge("c", operand);
        batch
    };
    expect("batch", [0, 1, 0, 0, 0], &|| db.write(batch(&number)).unwrap());
    expect("failed put", [0, 1, 0, 0, 0], &|| drop(db.put(vec![0; 70_000], "").unwrap_err()));
    expect("get", [1, 0, 0, 0, 0], &|| assert!(db.get("a").unwrap().is_some()));
    expect("pinned get", [1, 0, 0, 0, 0], &|| assert!(db.get_pinned("a").unwrap().is_some()));
    expect("contains", [1, 0, 0, 0, 0], &|| assert!(!db.contains_key("b").unwrap()));
    let snapshot = db.snapshot();
    expect("get at a snapshot", [1, 0, 0, 0, 0], &|| assert!(snapshot.get("a").unwrap().is_some()));
    expect("update", [0, 0, 1, 0, 0], &|| drop(db.update("a", |old| old.map(<[u8]>::to_vec)).unwrap()));
    expect("put if absent", [0, 0, 1, 0, 0], &|| assert!(!db.put_if_absent("a", "").unwrap()));
    expect("take", [0, 0, 1, 0, 0], &|| assert!(db.take("d").unwrap().is_some()));
    expect("sync", [0, 0, 0, 0, 1], &|| db.sync().unwrap());
    expect("sync of nothing", [0; 5], &|| db.sync().unwrap());
    expect("transaction", [1, 0, 0, 1, 0], &|| {
        let transaction = db.transaction().unwrap();
        transaction.get("a").unwrap();
        transaction.put("e", "1").unwrap();
        transaction.commit().unwrap();
    });
}

#[test]
fn times_are_those_of_the_clock() {
    let disk = SimulatedStorage::new(1);
    let options = Options::new().latencies(true).sync_interval(None);
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    disk.inject("(sync,map-sync) -> slow=5ms");
    for round in 0..20 {
        db.put("key", [round]).unwrap();
        db.sync().unwrap();
    }
    let latencies = db.latencies().unwrap();
    let sync = latencies.get(Call::Sync).unwrap();
    assert_eq!(sync.count, 20);
    let least = Duration::from_micros(4_950);
    assert!(sync.p50 >= least && sync.mean >= least && sync.p50 <= sync.p999 && sync.p999 <= sync.max, "{latencies}");
    let write = latencies.get(Call::Write).unwrap();
    assert!(write.max < Duration::from_millis(1), "{latencies}");
}

#[test]
fn without_the_option_nothing_is_measured() {
    for memory_component in [MemoryComponent::TwoLevel, MemoryComponent::Skiplist] {
        let db = Db::open_temporary(Options::new().memory_component(memory_component)).unwrap();
        db.put("key", "value").unwrap();
        assert_eq!(db.latencies(), None);
    }
}
