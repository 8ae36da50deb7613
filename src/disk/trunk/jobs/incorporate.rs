//! Incorporation: writing the data of a generation as branch files (SplinterDB §2.2). Heavy I/O, no lock; one thread
//! for each.

use super::pass::Pass;
use crate::disk::runs::from_memory::FromMemory;
use crate::disk::runs::output::NewParts;
use crate::disk::trunk::tree::node::Node;
use crate::util::Result;

impl Pass<'_> {
    /// Writes the data from memory as part files for the root. Returns these, and the bytes of users' keys and values in
    /// it; `None` if `progress` ended it.
    pub fn incorporate(&self, root: &Node, source: FromMemory<'_>) -> Result<Option<(NewParts, u64)>> {
        let cuts = self.cuts(root, self.options.branch_bytes);
        let bytes_max = if root.is_leaf() { self.options.part_bytes } else { self.options.branch_bytes };
        let mut output = self.output(&cuts, bytes_max, false);
        let bottom = source.is_oldest && root.is_leaf() && root.bundles.is_empty();
        source.entries.seek_first()?;
        if !output.copy(source.entries, source.tombstones, None, bottom)? {
            return Ok(None);
        }
        let user_bytes = output.user_bytes();
        Ok(Some((output.finish()?, user_bytes)))
    }
}
