//! A get in the levels (Kanda §2): from the newest run to the oldest, one part file of each. Any thread; no locks.
//!
//! The cache misses of a get overlap: it first finds the parts that may have the key and prefetches their filters, and
//! only then probes them in order.

use crate::branch::{Branch, Pages};
use crate::disk::levels::state::version::LevelsVersion;
use crate::util::key::wide_head;
use crate::util::sync::Arc;
use crate::util::{Kind, Result, SequenceNumber};

/// Parts that a get gathers at a time. The processor cannot have more misses in flight.
const GATHERED_MAX: usize = 24;

impl LevelsVersion {
    /// The newest version `<= at` of `key`, whose hash is `hash`: its number and kind. Its value is appended to `out`.
    /// If a range tombstone over the key is newer, the result is that range tombstone: it hides older versions in the
    /// part where it was found, newer ones were found first, and everything further down is older.
    pub fn get<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let head = wide_head(key);
        let mut gathered: [Option<&'t Arc<Branch>>; GATHERED_MAX] = [None; GATHERED_MAX];
        let mut count = 0;
        for (_, level_run) in self.runs() {
            let Some(part) = level_run.run.part_of(key, head).filter(|part| part.spans(key, head)) else { continue };
            part.prefetch(hash, pages.guard());
            gathered[count] = Some(part);
            count += 1;
            if count == GATHERED_MAX {
                for part in gathered.iter().flatten() {
                    let hit = part.get(key, hash, at, pages, out)?;
                    if hit.is_some() {
                        return Ok(hit);
                    }
                }
                count = 0;
            }
        }
        for part in gathered[..count].iter().flatten() {
            let hit = part.get(key, hash, at, pages, out)?;
            if hit.is_some() {
                return Ok(hit);
            }
        }
        Ok(None)
    }
}
