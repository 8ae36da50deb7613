//! `EventListener`: what a program gives a store to follow what it does.

use super::Event;
use std::fmt;

/// Gets the events of a store, one at a time, in the order in which they happened (`Options::listener`). Every function or
/// closure that takes an `&Event` is one.
///
/// A thread of its own calls it, soon after the event, so it may take its time and may call the store. If it falls back
/// by thousands of events, some are left out (`Event::Missed`). Closing the store waits until it has got all of them, unless it is
/// the listener that closes it. A listener that owns a handle of the store keeps it open for ever.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Event, Options};
/// use std::sync::{Arc, Mutex};
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let log = Arc::clone(&seen);
/// let options = Options::new().listener(move |event: &Event| log.lock().unwrap().push(event.to_string()));
/// let db = Db::open(directory.path(), options)?;
/// db.put("river", "silt")?;
/// db.flush()?;
/// db.close()?;
/// assert!(seen.lock().unwrap()[0].starts_with("began: incorporate"));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub trait EventListener: Send + Sync {
    /// Takes one event.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> EventListener for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

impl fmt::Debug for dyn EventListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventListener")
    }
}
