//! The change stream: `AsyncDb::changes`.

use super::AsyncDb;
use crate::db::{Changes, CommittedWrite};
use crate::util::Result;
use std::collections::VecDeque;

/// The most writes that one visit of another thread reads, and the bytes at which it ends.
const WRITES_MAX: usize = 256;
const BYTES_MAX: usize = 1 << 20;

/// The change stream.
impl AsyncDb {
    /// `Db::changes`, on another thread.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # futures_lite::future::block_on(async {
    /// use alluvium::{AsyncDb, ChangeRetention, Options};
    /// let options = Options::new().change_retention(ChangeRetention::new(1 << 30));
    /// let db = AsyncDb::open(directory.path(), options).await?;
    /// let mut changes = db.changes(0).await?;
    /// db.put("river", "silt").await?;
    /// assert_eq!(changes.next().await?.expect("a write").number(), 1);
    /// assert!(changes.next().await?.is_none()); // until something is written
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As `Db::changes`.
    pub async fn changes(&self, since: u64) -> Result<AsyncChanges> {
        let changes = self.run_blocking(move |db| db.changes(since)).await?;
        Ok(AsyncChanges { db: self.clone(), changes: Some(changes), through: since, read: VecDeque::new() })
    }
}

/// The writes to a store in their order; see [`Db::changes`](crate::Db::changes).
#[derive(Debug)]
pub struct AsyncChanges {
    db: AsyncDb,
    /// `None` if a future that had it was dropped.
    changes: Option<Changes>,
    through: u64,
    /// What was read and not returned yet.
    read: VecDeque<CommittedWrite>,
}

impl AsyncChanges {
    /// The next write; `None` if there is none yet. Another thread reads many at once.
    ///
    /// # Errors
    /// As `Db::changes`.
    pub async fn next(&mut self) -> Result<Option<CommittedWrite>> {
        if self.read.is_empty() {
            let (changes, through) = (self.changes.take(), self.through);
            let round = self.db.run_blocking(move |db| {
                let mut changes = changes.map_or_else(|| db.changes(through), Ok)?;
                let (mut read, mut bytes) = (VecDeque::new(), 0);
                while read.len() < WRITES_MAX && bytes < BYTES_MAX {
                    let write = match changes.next() {
                        None => break,
                        // It comes again.
                        Some(Err(_)) if !read.is_empty() => break,
                        Some(write) => write?,
                    };
                    bytes += write.bytes();
                    read.push_back(write);
                }
                Ok((changes, read))
            });
            let (changes, read) = round.await?;
            (self.changes, self.read) = (Some(changes), read);
        }
        let next = self.read.pop_front();
        self.through = next.as_ref().map_or(self.through, CommittedWrite::position);
        Ok(next)
    }
}
