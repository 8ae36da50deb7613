//! A store's statistics as a `dict`.

use alluvium::Stats;
use pyo3::prelude::*;
use pyo3::types::PyDict;

macro_rules! fields {
    ($dictionary:expr, $of:expr, $($name:ident)+) => {
        $($dictionary.set_item(stringify!($name), $of.$name)?;)+
    };
}

/// Returns every field of `alluvium::Stats` by its name, the write amplification and the approximate number of keys.
pub fn dictionary<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    fields!(result, stats,
        last_number synced_number incorporated_number branch_files branch_bytes value_files log_bytes log_shadow_bytes
        log_shadows_refused log_discarded_writes memory_entries memory_bytes generations cache_bytes cache_hits cache_misses items item_hits
        memory_budget snapshots writes user_bytes logged_bytes incorporated_bytes compacted_bytes scan_compacted_bytes
        incorporations jobs splits joins live_rewrites reused_bytes debt_bytes garbage_bytes slowed_writes slowed_ns
        garbage_slowed_writes garbage_slowed_ns stalled_writes stalled_ns longest_delay_ns conflicts retried_updates
        background_write_limit background_paused ballast_bytes disk_full skipped buffer_bytes parent_bytes buffered_bytes
        transition_bytes checkpoint_bytes buffered_rows
        quiet_compacted_bytes quiet_credit_bytes
        cache_leaf_bytes cache_index_bytes cache_filter_bytes searches rows_ahead read_waits read_wait_ns
        compaction_filter_removed compaction_filter_replaced compaction_filter_panics compaction_filter_refused
        compaction_filter_repeated ingested_bytes ingests change_bytes changes_after changes_lost);
    result.set_item("write_amplification", stats.write_amplification())?;
    result.set_item("approximate_keys", stats.approximate_keys())?;
    result.set_item("oldest_snapshot", stats.oldest_snapshot.map(|age| age.as_secs_f64()))?;
    result.set_item("failure", stats.failure.as_deref())?;
    result.set_item("running", stats.running.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let mut levels = Vec::new();
    for level in &stats.levels {
        let figures = PyDict::new(py);
        fields!(figures, level, height nodes bundles branches bytes entries tombstones runs probes cache_misses);
        levels.push(figures);
    }
    result.set_item("levels", levels)?;
    Ok(result)
}
