//! Many gets in one call, whose reads of the disk overlap (design.md, Cache and I/O).

use super::get::Lookup;
use super::read_path::ReadPath;
use crate::branch::{BatchedPages, Stopped};
use crate::engine::state::view::View;
use crate::util::{Result, SequenceNumber};

/// Gets that go on together. The device is at its best with about this many reads under way; each holds a few pages.
const TOGETHER: usize = 64;

impl ReadPath {
    /// The values of the keys at a snapshot, in the order of the keys.
    pub(crate) fn multi_get_at<K: AsRef<[u8]>>(&self, keys: &[K], at: SequenceNumber) -> Result<Vec<Option<Vec<u8>>>> {
        self.check_open()?;
        let mut values = Vec::with_capacity(keys.len());
        for keys in keys.chunks(TOGETHER) {
            let lookup: Vec<Lookup<'_>> = keys.iter().map(|key| Lookup::new(self, key.as_ref(), at)).collect();
            // The snapshot keeps the versions, so each part may read the newest view, and none is held for long.
            self.get_together(&self.view.load_full(), &lookup, &mut values)?;
        }
        Ok(values)
    }

    fn get_together(&self, view: &View, lookup: &[Lookup<'_>], values: &mut Vec<Option<Vec<u8>>>) -> Result<()> {
        let first = values.len();
        values.resize(first + lookup.len(), None);
        let mut pages = BatchedPages::new();
        let mut waiting: Vec<usize> = (0..lookup.len()).collect();
        // Ends: every round reads what each waiting get lacked, and holds it.
        while !waiting.is_empty() {
            let mut missing = Vec::new();
            for index in waiting {
                let mut value = Vec::new();
                match self.find(view, lookup[index], &mut pages, &mut value) {
                    Ok(found) => values[first + index] = found.then_some(value),
                    Err(Stopped::Missing) => missing.push(index),
                    Err(Stopped::Failed(error)) => return Err(error),
                }
            }
            pages.read()?;
            waiting = missing;
        }
        Ok(())
    }
}
