//! The statistics of a store that is open for writing, gathered from its components. Any thread.

use crate::disk::Component;
use crate::engine::changes::change_log::ChangeLog;
use crate::engine::durable_log::DurableLog;
use crate::engine::memory::generations::Generations;
use crate::engine::read::read_path::ReadPath;
use crate::engine::scheduler::Scheduler;
use crate::engine::space::full_disk::Space;
use crate::engine::state::health::Health;
use crate::engine::tree_publisher::TreePublisher;
use crate::engine::types::stats::Stats;
use crate::engine::write::throttle::Throttle;
use crate::engine::write::write_path::WritePath;
use crate::util::sync::{Arc, Ordering};

/// See the module.
pub(crate) struct Statistics {
    pub(crate) read: Arc<ReadPath>,
    pub(crate) health: Arc<Health>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) generations: Arc<Generations>,
    pub(crate) log: Arc<DurableLog>,
    pub(crate) disk: Arc<Component>,
    pub(crate) space: Arc<Space>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) write: Arc<WritePath>,
    pub(crate) publisher: Arc<TreePublisher>,
    pub(crate) changes: Arc<ChangeLog>,
    pub(crate) memory_budget: u64,
}

impl Statistics {
    /// The statistics of this moment.
    pub(crate) fn gather(&self) -> Stats {
        let (written, threads, delays) = (self.disk.written(), &self.write.threads, &self.generations.delays);
        let (log, filters) = (&self.log.log, &self.publisher.filter_counters);
        let changes = self.changes.stats();
        Stats {
            synced_number: log.synced().0,
            incorporated_number: self.generations.incorporated().0,
            log_bytes: log.bytes(),
            log_shadow_bytes: log.shadow_bytes(),
            log_shadows_refused: log.shadows_refused(),
            log_discarded_writes: self.log.discarded,
            memory_budget: self.memory_budget,
            writes: threads.sum(|counters| &counters.writes),
            user_bytes: threads.sum(|counters| &counters.user_bytes),
            logged_bytes: threads.sum(|counters| &counters.logged_bytes),
            incorporated_bytes: written.incorporated_bytes,
            compacted_bytes: written.compacted_bytes + written.mapped_bytes,
            scan_compacted_bytes: written.scan_compacted_bytes,
            quiet_compacted_bytes: written.quiet_compacted_bytes,
            incorporations: written.incorporations,
            jobs: written.jobs,
            ingested_bytes: written.ingested_bytes,
            ingests: written.ingests,
            change_bytes: changes.bytes,
            changes_after: changes.oldest,
            changes_lost: changes.lost,
            splits: written.splits,
            joins: written.joins,
            live_rewrites: written.live_rewrites,
            reused_bytes: written.reused_bytes,
            skipped: written.skipped,
            buffered_bytes: written.buffered_bytes,
            transition_bytes: written.transition_bytes,
            checkpoint_bytes: written.checkpoint_bytes,
            buffered_rows: self.disk.buffered_rows(),
            slowed_writes: threads.sum(|counters| &counters.slowed_writes),
            slowed_ns: threads.sum(|counters| &counters.slowed_ns),
            garbage_slowed_writes: threads.sum(|counters| &counters.garbage_slowed_writes),
            garbage_slowed_ns: threads.sum(|counters| &counters.garbage_slowed_ns),
            stalled_writes: delays.stalled_writes(),
            stalled_ns: delays.stalled_ns(),
            longest_delay_ns: delays.longest_ns(),
            conflicts: self.write.counters.conflicts.load(Ordering::Relaxed),
            retried_updates: self.write.counters.retries.load(Ordering::Relaxed),
            compaction_filter_removed: filters.removed.load(Ordering::Relaxed),
            compaction_filter_replaced: filters.replaced.load(Ordering::Relaxed),
            compaction_filter_panics: filters.panics.load(Ordering::Relaxed),
            compaction_filter_refused: filters.refused.load(Ordering::Relaxed),
            compaction_filter_repeated: filters.repeated.load(Ordering::Relaxed),
            running: self.scheduler.running.describe(self.scheduler.clock.now()),
            background_write_limit: self.throttle.write_limits.own().get(),
            background_paused: self.scheduler.is_paused(),
            ballast_bytes: self.space.ballast.bytes(),
            disk_full: self.health.is_full(),
            failure: self.health.describe(),
            ..self.read.stats()
        }
    }
}
