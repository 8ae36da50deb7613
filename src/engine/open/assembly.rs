//! Assembles the components of a store that was opened for writing, from the lowest up.

use super::host::Host;
use crate::disk::Component;
use crate::engine::background::background::Background;
use crate::engine::changes::change_log::ChangeLog;
use crate::engine::directory::file_hashes::FileHashes;
use crate::engine::directory::locks::WriterLock;
use crate::engine::durable_log::{DurableLog, OpenedLog};
use crate::engine::engine::Engine;
use crate::engine::events::Events;
use crate::engine::expiry::ExpiredSpace;
use crate::engine::memory::generations::Generations;
use crate::engine::read::read_path::ReadPath;
use crate::engine::resources::resources::Resources;
use crate::engine::resources::write_limits::WriteLimits;
use crate::engine::scheduler::{Driver, RunNext};
use crate::engine::shared_components::SharedComponents;
use crate::engine::space::full_disk::Space;
use crate::engine::space::removal::ObsoleteFiles;
use crate::engine::state::health::Health;
use crate::engine::state::quiet::Quiet;
use crate::engine::statistics::gather::Statistics;
use crate::engine::statistics::live_stats::Publisher;
use crate::engine::tree_publisher::{Edits, TreePublisher};
use crate::engine::write::throttle::Throttle;
use crate::engine::write::write_path::{WritePath, WritePathComponents};
use crate::engine::write::writer_threads::WriterThreads;
use crate::merge::CompactionFilters;
use crate::util::sync::{Arc, Mutex};
use crate::util::{FileNumbers, SequenceNumber};

/// What opening has made of the files of a store.
pub(super) struct OpenedStore {
    pub(super) read: Arc<ReadPath>,
    pub(super) disk: Arc<Component>,
    pub(super) log: OpenedLog,
    pub(super) edits: Arc<Mutex<Edits>>,
    pub(super) numbers: Arc<FileNumbers>,
    /// Every number up to this one is in branch files.
    pub(super) incorporated: SequenceNumber,
    pub(super) writer_lock: WriterLock,
}

/// See the module.
pub(super) fn assemble(host: &Host, opened: OpenedStore) -> Arc<Engine> {
    let Host { options, config, scheduler, arbiter, .. } = host;
    let OpenedStore { read, disk, log, edits, numbers, incorporated, writer_lock } = opened;
    let events = Events::new(options.listener.as_ref(), scheduler.driver() == Driver::Deterministic);
    let (health, threads) = (Arc::new(Health::new(events.clone())), WriterThreads::new());
    let shared = SharedComponents {
        read: Arc::clone(&read),
        disk: Arc::clone(&disk),
        health: Arc::clone(&health),
        events: events.clone(),
        scheduler: Arc::clone(scheduler),
        budget: config.budget,
    };
    let log = DurableLog::new(&shared, log, options.sync_interval, writer_lock.checker());
    let generations = Generations::new(&shared, Arc::clone(&arbiter.memtables), &arbiter.memory, incorporated);
    let publisher = TreePublisher::new(&shared, edits, &log, &numbers);
    let database = publisher.edits.lock().manifest.state().identity.database;
    let changes = ChangeLog::new(&shared, &log, &numbers, database, options.change_retention);
    let space = Space::new(&shared, &log.log, &generations, &changes);
    let write_limits =
        WriteLimits::new(options.background_write_limit, options.resources.as_ref().map(Resources::shared_write_limit));
    let throttle = Throttle::new(&shared, &generations, &log, &threads, write_limits);
    let write = WritePath::new(
        &shared,
        WritePathComponents {
            generations: Arc::clone(&generations),
            log: Arc::clone(&log),
            space: Arc::clone(&space),
            throttle: Arc::clone(&throttle),
            threads,
            numbers: Arc::clone(&numbers),
            durability: options.durability,
        },
    );
    let statistics = Arc::new(Statistics {
        read: Arc::clone(&read),
        health: Arc::clone(&health),
        scheduler: Arc::clone(scheduler),
        generations: Arc::clone(&generations),
        log: Arc::clone(&log),
        disk: Arc::clone(&disk),
        space: Arc::clone(&space),
        throttle: Arc::clone(&throttle),
        write: Arc::clone(&write),
        publisher: Arc::clone(&publisher),
        changes: Arc::clone(&changes),
        memory_budget: config.budget.total,
    });
    let background = Arc::new(Background {
        read: Arc::clone(&read),
        health: Arc::clone(&health),
        scheduler: Arc::clone(scheduler),
        arbiter: Arc::clone(arbiter),
        disk,
        log,
        generations,
        throttle,
        space,
        obsolete_files: ObsoleteFiles::new(&read, &publisher, scheduler),
        publisher,
        write: Arc::clone(&write),
        statistics,
        events,
        live_stats: Publisher::default(),
        expired_space: ExpiredSpace::default(),
        compaction_filters: CompactionFilters::new(options.compaction_filter.clone()),
        changes,
        quiet: Quiet::default(),
        upkeep: Mutex::default(),
        segment_retry: Mutex::default(),
        budget: config.budget,
    });
    let runner: Arc<dyn RunNext> = background.clone();
    scheduler.set_runner(Arc::downgrade(&runner));
    Arc::new(Engine {
        read,
        write,
        background,
        health,
        numbers,
        hashes: FileHashes::default(),
        membership: Mutex::default(),
        closing: Mutex::default(),
        writer_lock: Mutex::new(Some(writer_lock)),
    })
}
