//! The setters of options: each sets its field and nothing else, and each field has one.

use alluvium::merge_operators::Add;
use alluvium::{
    Cancellation, ChangeRetention, CompactOptions, CompactionFilter, Compression, DiskComponent, Durability, Event,
    FilterDecision, FilterPair, Goal, LevelFilters, LevelsOptions, MemoryComponent, Options, Resources,
    TransactOptions, WriteOptions,
};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// A compaction filter.
struct KeepAll;

impl CompactionFilter for KeepAll {
    fn name(&self) -> &str {
        "test.keep-all"
    }

    fn filter(&self, _: &FilterPair<'_>) -> FilterDecision {
        FilterDecision::Keep
    }
}

fn text(options: &impl Debug) -> String {
    format!("{options:#?}")
}

/// The names of the fields, which are indented once.
fn fields(options: &impl Debug) -> Vec<String> {
    let text = text(options);
    let names = text.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(':')).map(|(name, _)| name);
    names.filter(|name| !name.starts_with(' ')).map(String::from).collect()
}

/// Compares each setter with an assignment to its field. The fields come in their order.
macro_rules! check {
    ($options:ident, $($field:ident($value:expr) = $stored:expr;)*) => {
        let default = $options::default();
        assert_eq!(text(&$options::new()), text(&default));
        assert_eq!(fields(&default), [$(stringify!($field)),*]);
        $(
            let set = $options::new().$field($value);
            let mut expected = default.clone();
            expected.$field = $stored;
            assert_eq!(text(&set), text(&expected));
            assert_ne!(text(&default), text(&expected), "the value of {} is the default", stringify!($field));
        )*
    };
}

#[test]
fn each_field_has_a_setter_that_sets_nothing_else() {
    let (second, resources) = (Duration::from_secs(1), Resources::builder().memory(1 << 20).build().unwrap());
    check! { Options,
        memory_budget(1 << 20) = Some(1 << 20);
        resources(resources.clone()) = Some(resources);
        durability(Durability::Sync) = Durability::Sync;
        sync_interval(second) = Some(second);
        compression(Compression::Lz4) = Compression::Lz4;
        deep_compression(Compression::Lz4) = Some(Compression::Lz4);
        create_if_missing(false) = false;
        background_threads(3) = Some(3);
        snapshot_age_limit(second) = Some(second);
        background_write_limit(1 << 20) = Some(1 << 20);
        write_buffer(1 << 20) = Some(1 << 20);
        memory_component(MemoryComponent::Skiplist) = MemoryComponent::Skiplist;
        disk_component(DiskComponent::Trunk) = Some(DiskComponent::Trunk);
        maplets(false) = false;
        merge_operator(Add) = Some(Arc::new(Add));
        compaction_filter(KeepAll) = Some(Arc::new(KeepAll));
        listener(|_: &Event| ()) = Some(Arc::new(|_: &Event| ()));
        latencies(true) = true;
        change_retention(ChangeRetention::new(1 << 20)) = Some(ChangeRetention::new(1 << 20));
        force_cut(true) = true;
    }
    check! { WriteOptions,
        durability(Durability::Unlogged) = Some(Durability::Unlogged);
        frees_space(true) = true;
        waits_for_space(true) = true;
    }
    check! { TransactOptions,
        attempts(3) = 3;
        write(WriteOptions::sync()) = WriteOptions::sync();
    }
    check! { CompactOptions,
        goal(Goal::Reads) = Goal::Reads;
        cancellation(Cancellation::new()) = Some(Cancellation::new());
    }
    check! { LevelsOptions,
        size_ratio(3) = 3;
        runs_per_level(3) = 3;
        level0_runs(3) = 3;
        merge_percent(50) = 50;
        file_bytes(1 << 20) = Some(1 << 20);
        base_level_bytes(1 << 20) = Some(1 << 20);
        filter_bits(3) = 3;
        filters(LevelFilters::Equal) = LevelFilters::Equal;
        max_skip(3) = 3;
        skip_runs(3) = 3;
        buffer_bytes(1 << 20) = Some(1 << 20);
    }
}

/// Of optional fields, `None` can be set again.
#[test]
fn a_setter_takes_none() {
    let options = Options::new().memory_budget(1 << 20).sync_interval(None).background_threads(3);
    assert_eq!((options.sync_interval, options.background_threads), (None, Some(3)));
    let options = options.memory_budget(None).background_threads(None);
    assert_eq!((options.memory_budget, options.background_threads), (None, None));
}
