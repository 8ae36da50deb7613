//! Checkpoints of an Alluvium store beside its puts, every so many of them. Any thread.

use crate::engine::Result;
use alluvium::{CompactOptions, Db, Goal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// See the module.
pub struct Checkpoints {
    every: u64,
    puts: AtomicU64,
    running: Mutex<Option<JoinHandle<alluvium::Result<()>>>>,
}

impl Checkpoints {
    /// One every so many puts.
    pub fn new(every: u64) -> Self {
        Self { every: every.max(1), puts: AtomicU64::new(0), running: Mutex::default() }
    }

    /// Counts a put. Starts a checkpoint if one is due, once the one before it has ended.
    pub fn note_put(&self, db: &Arc<Db>) -> Result<()> {
        let puts = self.puts.fetch_add(1, Ordering::Relaxed) + 1;
        if !puts.is_multiple_of(self.every) {
            return Ok(());
        }
        self.wait()?;
        let db = Arc::clone(db);
        let checkpoint = move || {
            let options = CompactOptions::new().goal(Goal::Recovery);
            db.compact_with(.., &options, &mut |_| ()).map(drop)
        };
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::spawn(checkpoint));
        Ok(())
    }

    /// Waits for the running checkpoint.
    pub fn wait(&self) -> Result<()> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        match running.map(JoinHandle::join) {
            Some(Ok(ended)) => Ok(ended?),
            Some(Err(_)) => Err("a checkpoint has panicked".into()),
            None => Ok(()),
        }
    }
}
