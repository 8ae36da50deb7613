//! The background work of a store: what all of its tasks use. The files beside this one choose, run and wait for them.

use super::upkeep::Upkeep;
use crate::disk::Component;
use crate::engine::changes::change_log::ChangeLog;
use crate::engine::durable_log::DurableLog;
use crate::engine::events::Events;
use crate::engine::expiry::ExpiredSpace;
use crate::engine::memory::arbiter::MemoryArbiter;
use crate::engine::memory::generations::Generations;
use crate::engine::read::read_path::ReadPath;
use crate::engine::scheduler::Scheduler;
use crate::engine::space::full_disk::Space;
use crate::engine::space::removal::ObsoleteFiles;
use crate::engine::state::budget::Budget;
use crate::engine::state::health::Health;
use crate::engine::state::quiet::Quiet;
use crate::engine::statistics::gather::Statistics;
use crate::engine::statistics::live_stats::Publisher;
use crate::engine::tree_publisher::TreePublisher;
use crate::engine::write::throttle::Throttle;
use crate::engine::write::write_path::WritePath;
use crate::merge::CompactionFilters;
use crate::util::sync::{Arc, Mutex};
use std::time::Duration;

/// See the module.
pub(crate) struct Background {
    pub(crate) read: Arc<ReadPath>,
    pub(crate) health: Arc<Health>,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) arbiter: Arc<MemoryArbiter>,
    pub(crate) disk: Arc<Component>,
    pub(crate) log: Arc<DurableLog>,
    pub(crate) generations: Arc<Generations>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) space: Arc<Space>,
    pub(crate) obsolete_files: Arc<ObsoleteFiles>,
    pub(crate) publisher: Arc<TreePublisher>,
    /// For the ticks of the expiry.
    pub(crate) write: Arc<WritePath>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) events: Events,
    /// Publishes the statistics for other processes.
    pub(crate) live_stats: Publisher,
    pub(crate) expired_space: ExpiredSpace,
    pub(crate) compaction_filters: CompactionFilters,
    pub(crate) changes: Arc<ChangeLog>,
    pub(crate) quiet: Quiet,
    pub(crate) upkeep: Mutex<Upkeep>,
    /// After a full disk: when a log segment may be tried next. Locked by the one run that makes segments.
    pub(crate) segment_retry: Mutex<Duration>,
    pub(crate) budget: Budget,
}
