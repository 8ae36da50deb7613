//! Running a transaction until it commits.

use super::Transaction;
use crate::engine::types::options::WriteOptions;
use crate::engine::write::write_path::WritePath;
use crate::util::random::splitmix64;
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::time::Duration;

/// How `Db::transact_with` goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactOptions {
    /// How many times the work is run at most before a conflict is the caller's; at least once. 100 by default: where so many conflict,
    /// the keys are better taken apart.
    pub attempts: u32,
    /// How the commit is done.
    pub write: WriteOptions,
}

impl Default for TransactOptions {
    fn default() -> Self {
        Self { attempts: 100, write: WriteOptions::default() }
    }
}

/// The first pause may be as long as this; each further one twice as long, up to the longest.
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
