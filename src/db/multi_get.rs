//! Many gets in one call, whose reads of the disk overlap (design.md, Cache and I/O).

use super::read::Asked;
use super::read_side::ReadSide;
use super::view::View;
use crate::base::{Result, SequenceNumber};
use crate::branch::{Gathering, Stopped};

/// Gets that go on together. The device is at its best with about this many reads under way; each holds a few pages.
const TOGETHER: usize = 64;

impl ReadSide {
    /// The values of the keys at a snapshot, in the order of the keys.
    pub(super) fn multi_get_at<K: AsRef<[u8]>>(&self, keys: &[K], at: SequenceNumber) -> Result<Vec<Option<Vec<u8>>>> {
        self.check_open()?;
        let mut values = Vec::with_capacity(keys.len());
        for keys in keys.chunks(TOGETHER) {
            let asked: Vec<Asked<'_>> = keys.iter().map(|key| Asked::new(self, key.as_ref(), at)).collect();
            // The snapshot keeps the versions, so each part may read the newest view, and none is held for long.
            self.get_together(&self.view.load_full(), &asked, &mut values)?;
        }
        Ok(values)
    }

    fn get_together(&self, view: &View, asked: &[Asked<'_>], values: &mut Vec<Option<Vec<u8>>>) -> Result<()> {
        let first = values.len();
        values.resize(first + asked.len(), None);
        let mut pages = Gathering::new();
        let mut waiting: Vec<usize> = (0..asked.len()).collect();
        // Ends: every round reads what each waiting get lacked, and holds it.
        while !waiting.is_empty() {
            let mut missing = Vec::new();
            for index in waiting {
                let mut value = Vec::new();
                match self.find(view, asked[index], &mut pages, &mut value) {
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
