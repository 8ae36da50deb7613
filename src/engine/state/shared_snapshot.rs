//! The snapshot that relaxed reads share (FloDB §4.4, piggybacking).
//!
//! Any thread. A past number cannot be pinned again, so the newest shared snapshot is kept for as long as somebody may ask
//! for one of its age, and no longer.

use super::snapshot_registry::SnapshotPin;
use crate::util::sync::{Arc, Mutex};
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct SharedSnapshot {
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    pin: Arc<SnapshotPin>,
    taken: Duration,
    /// Nobody asked for an older one than this.
    until: Duration,
}

impl SharedSnapshot {
    /// The kept pin where it is at most `age` old, or a new one, which is kept from now on.
    pub(crate) fn share(&self, now: Duration, age: Duration, take: impl FnOnce() -> SnapshotPin) -> Arc<SnapshotPin> {
        let mut kept = self.kept.lock();
        if let Some(kept) =
            kept.as_mut().filter(|kept| now.saturating_sub(kept.taken) <= age && kept.pin.enter().is_ok())
        {
            kept.until = kept.until.max(kept.taken.saturating_add(age));
            return Arc::clone(&kept.pin);
        }
        let pin = Arc::new(take());
        // Who holds the old one goes on with it.
        *kept = Some(Kept { pin: Arc::clone(&pin), taken: now, until: now.saturating_add(age) });
        pin
    }

    /// Lets go of a pin that is older than anybody asked for.
    pub(crate) fn expire(&self, now: Duration) {
        let mut kept = self.kept.lock();
        if kept.as_ref().is_some_and(|kept| now > kept.until) {
            *kept = None;
        }
    }

    /// Lets go of any pin.
    pub(crate) fn clear(&self) {
        *self.kept.lock() = None;
    }
}
