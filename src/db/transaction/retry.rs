//! Runs a transaction until it commits.

use super::Transaction;
use crate::engine::types::options::WriteOptions;
use crate::engine::write::write_path::WritePath;
use crate::util::random::splitmix64;
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::time::Duration;

/// Options of `Db::transact_with`.
///
/// ```
/// use alluvium::{TransactOptions, WriteOptions};
/// let options = TransactOptions::new().attempts(10).write(WriteOptions::sync());
/// assert_eq!(options.attempts, 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactOptions {
    /// How often the transaction is run at most before `Error::Conflict` is returned. 0 counts as 1. The default is
    /// 100: if that many attempts conflict, it is better to split the contended keys.
    pub attempts: u32,
    /// Options of the commit.
    pub write: WriteOptions,
}

impl TransactOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the field `attempts`.
    #[must_use]
    pub fn attempts(self, attempts: u32) -> Self {
        Self { attempts, ..self }
    }

    /// Sets the field `write`.
    #[must_use]
    pub fn write(self, write: WriteOptions) -> Self {
        Self { write, ..self }
    }
}

impl Default for TransactOptions {
    fn default() -> Self {
        Self { attempts: 100, write: WriteOptions::default() }
    }
}

/// Upper bound of the first random pause. It doubles with each attempt, up to `PAUSE_MAX`.
const PAUSE: Duration = Duration::from_micros(20);
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// Runs `work` in transactions of its own until one commits.
pub(crate) fn transact<T, E: From<Error>>(
    write: &Arc<WritePath>,
    options: &TransactOptions,
    mut work: impl FnMut(&Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let (mut pause, clock) = (PAUSE, write.read.snapshots.clock());
    let mut random = write.read.sequencer.last_relaxed().0 ^ std::ptr::from_ref(&pause).addr() as u64;
    for attempt in 1.. {
        let transaction = Transaction::begin(write)?;
        let value = work(&transaction)?;
        match transaction.commit_with(options.write) {
            Err(Error::Conflict { .. }) if attempt < options.attempts => {
                // The pause is random. Otherwise transactions that conflicted once would meet again.
                clock.sleep(pause.mul_f64((splitmix64(&mut random) >> 11) as f64 / (1u64 << 53) as f64));
                pause = PAUSE_MAX.min(pause * 2);
            }
            committed => return committed.map(|()| value).map_err(E::from),
        }
    }
    unreachable!("the last attempt returns")
}
