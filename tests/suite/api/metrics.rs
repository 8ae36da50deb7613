//! The figures of a store, as the crate `metrics` gets them.

use crate::support::tiny;
use alluvium::Db;
use alluvium::storage::MemoryStorage;
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values by name and labels, without the label of the store.
fn figures(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let all = snapshotter.snapshot().into_vec();
    let figures = all.into_iter().map(|(key, _, description, value)| {
        let (kind, key) = key.into_parts();
        assert!(description.is_some(), "{} has no description", key.name());
        let mut name = key.name().to_owned();
        let mut labels = key.labels().map(|label| (label.key(), label.value()));
        assert_eq!(labels.next(), Some(("store", "rivers")), "{name}");
        labels.for_each(|(_, value)| name.extend(["/", value]));
        let value = match value {
            DebugValue::Counter(value) => value as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(_) => panic!("{name}"),
        };
        // Counters have no fraction, so times are gauges.
        let is_counter = name.ends_with("_total") && !name.ends_with("_seconds_total");
        assert_eq!(kind == MetricKind::Counter, is_counter, "{name}");
        (name, value)
    });
    figures.collect()
}

#[test]
fn figures_go_to_the_recorder() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let db = Db::open_with(Arc::new(MemoryStorage::new()), tiny().latencies(true)).unwrap();
        for number in 0..100_u32 {
            db.put(number.to_be_bytes(), "silt").unwrap();
        }
        db.flush().unwrap();
        db.get(7_u32.to_be_bytes()).unwrap();
        db.publish_metrics("rivers").unwrap();
        let found = figures(&snapshotter);
        assert_eq!(found["alluvium_writes_total"], 100.0);
        assert_eq!(found["alluvium_user_bytes_total"], 800.0);
        assert_eq!(found["alluvium_last_number"], 100.0);
        assert_eq!((found["alluvium_keys"], found["alluvium_branch_files"]), (100.0, 1.0));
        assert_eq!((found["alluvium_disk_full"], found["alluvium_failed"]), (0.0, 0.0));
        assert_eq!(found["alluvium_measured_calls/write"], 100.0);
        assert_eq!(
            (found["alluvium_compaction_filter_removed_total"], found["alluvium_running_tasks/merge"]),
            (0.0, 0.0)
        );
        assert!(found["alluvium_cache_bytes/leaf"] >= 0.0 && found["alluvium_read_wait_seconds_total"] >= 0.0);
        let of_gets = ["0.5", "0.99", "1"].map(|quantile| found[&format!("alluvium_latency_seconds/get/{quantile}")]);
        assert!(of_gets.is_sorted() && of_gets[0] > 0.0, "{of_gets:?}");
        // Counters go on from where they are.
        db.put("river", "silt").unwrap();
        db.publish_metrics("rivers").unwrap();
        assert_eq!(figures(&snapshotter)["alluvium_writes_total"], 101.0);
        db.close().unwrap();
        assert!(db.publish_metrics("rivers").is_err());
    });
}
