//! The snapshot that relaxed reads share (FloDB §4.4, piggybacking).
//!
//! Any thread. A past number cannot be pinned again, so the store retains the newest shared snapshot for the longest
//! age that a caller has asked for.

use super::snapshot_registry::SnapshotPin;
use crate::util::sync::{Arc, Mutex};
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SharedSnapshot {
    current: Mutex<Option<Shared>>,
}

#[derive(Debug)]
struct Shared {
    pin: Arc<SnapshotPin>,
    taken: Duration,
    /// No caller accepts the snapshot after this time.
    until: Duration,
}

impl SharedSnapshot {
    /// The current pin if it is at most `age` old; otherwise a new one, which becomes the current one.
    pub(crate) fn share(&self, now: Duration, age: Duration, take: impl FnOnce() -> SnapshotPin) -> Arc<SnapshotPin> {
        let mut current = self.current.lock();
        let is_recent =
            |shared: &&mut Shared| now.saturating_sub(shared.taken) <= age && shared.pin.begin_read().is_ok();
        if let Some(shared) = current.as_mut().filter(is_recent) {
            shared.until = shared.until.max(shared.taken.saturating_add(age));
            return Arc::clone(&shared.pin);
        }
        let pin = Arc::new(take());
        // Readers of the old pin keep it.
        *current = Some(Shared { pin: Arc::clone(&pin), taken: now, until: now.saturating_add(age) });
        pin
    }

    /// Drops the current pin if it is older than any caller accepts.
    pub(crate) fn expire(&self, now: Duration) {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|shared| now > shared.until) {
            *current = None;
        }
    }

    /// Drops the current pin.
    pub(crate) fn clear(&self) {
        *self.current.lock() = None;
    }
}
