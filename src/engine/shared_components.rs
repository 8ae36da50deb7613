//! The components that all others above the read path share.

use super::events::Events;
use super::read::read_path::ReadPath;
use super::scheduler::Scheduler;
use super::state::budget::Budget;
use super::state::health::Health;
use crate::disk::Component;
use crate::util::sync::Arc;

/// See the module. Components take what they need of it when they are made.
pub(crate) struct SharedComponents {
    pub(crate) read: Arc<ReadPath>,
    pub(crate) disk: Arc<Component>,
    pub(crate) health: Arc<Health>,
    pub(crate) events: Events,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) budget: Budget,
}
