//! Plain data of the public interface, without locks or I/O. Any part of the engine may use it.

pub(crate) mod batch;
pub(crate) mod bounds;
pub(crate) mod change;
pub(crate) mod compaction;
pub(crate) mod conversion;
pub(crate) mod effects;
pub(crate) mod events;
pub(crate) mod key_change;
pub(crate) mod key_range;
pub(crate) mod keyspace_info;
pub(crate) mod options;
pub(crate) mod repair_report;
pub(crate) mod stats;
pub(crate) mod user_key;
pub(crate) mod verification;
