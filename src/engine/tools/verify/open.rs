//! Checks a store that is open, beside readers and writers. Any thread.

use super::closed::{check_branch, check_maplet, check_tree};
use super::findings::{CheckProgress, Depth, Findings, Verification};
use crate::disk::Version;
use crate::engine::engine::Engine;
use crate::engine::state::view::View;
use crate::engine::tools::offline::Readers;
use crate::log::salvage::FoundSegment;
use crate::manifest::{MANIFEST_NAME, ManifestState, read_state};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};
use std::collections::BTreeSet;

impl Engine {
    /// Lists everything that is wrong on disk: the manifest against what the store knows, the tree of this moment with its
    /// branch and value files, headers of the log's segments. (The log's records are read by recovery and by `verify_closed`:
    /// while it is written to, only its writers know where it ends.)
    pub(crate) fn verify_with(
        &self,
        depth: Depth,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<Verification> {
        self.check_open()?;
        let mut findings = Findings::new(depth, progress);
        // The view holds every file that is checked below.
        let (view, state) = self.check_manifest(&mut findings)?;
        self.check_structure(&view.disk, &mut findings);
        let branches = view.disk.branches();
        findings.await_bytes(branches.iter().map(|branch| branch.meta().bytes).sum());
        // Its own readers: what the store has in its cache says nothing of the disk.
        let readers = Readers::new(&self.storage, self.branches.database, self.numbers.next());
        let mut values = BTreeSet::new();
        for branch in &branches {
            let branch = crate::branch::Branch::new(&readers.branches, branch.meta().clone());
            check_branch(&readers, &branch, &mut values, &mut findings)?;
        }
        if let Some(state) = &state {
            check_tree(&readers, state, &mut findings)?;
        }
        let branch = |file: &FileNumber| {
            let at = branches.binary_search_by_key(file, |branch| branch.meta().file);
            at.ok().map(|at| branches[at].meta().clone())
        };
        for maplet in view.disk.maplets() {
            check_maplet(&readers, maplet.meta(), &branch, &mut findings)?;
        }
        self.check_segments(&mut findings)?;
        Ok(findings.found)
    }

    /// The file must replay to what the store works on. Gives the view that belongs to it, and the state where it is in order.
    fn check_manifest(&self, findings: &mut Findings<'_>) -> Result<(Arc<View>, Option<ManifestState>)> {
        findings.begin(MANIFEST_NAME);
        // Every tree is published under this lock.
        let edits = self.edits.lock();
        let view = self.view.load_full();
        let path = self.storage.path_of(MANIFEST_NAME);
        let known = edits.manifest.state();
        let checked = known.check().and_then(|()| view.disk.check_against(known));
        let state = checked.is_ok().then(|| known.clone());
        if let Err(found) = checked {
            findings.damage(Error::corruption(&path, 0, "structure of the tree", "a consistent tree", found));
        }
        let read = match read_state(&*self.storage) {
            Err(Error::NoStore { .. }) => Err(Error::corruption(&path, 0, "file", "one that the store needs", "none")),
            read => read,
        };
        if let Some(read) = findings.take(read)?
            && read != *known
        {
            let (expected, found) =
                (format!("the state after edit {}", known.edits), format!("another, of edit {}", read.edits));
            findings.damage(Error::corruption(&path, 0, "manifest", expected, found));
        }
        Ok((view, state))
    }

    /// The tree in memory, by itself. (Outside the lock: this looks at every reference.)
    fn check_structure(&self, version: &Version, findings: &mut Findings<'_>) {
        if let Err(found) = version.check_structure() {
            let path = self.storage.path_of(MANIFEST_NAME);
            findings.damage(Error::corruption(&path, 0, "node of the tree in memory", "one in order", found));
        }
    }

    /// The headers of the segments that hold something that is needed.
    fn check_segments(&self, findings: &mut Findings<'_>) -> Result<()> {
        for number in self.log.live_segments() {
            let found = FoundSegment::open(&*self.storage, number);
            // Recycled or removed since the list was made: nothing of it is needed any more.
            if !self.log.live_segments().contains(&number) {
                continue;
            }
            findings.found.checked.log_segments += 1;
            if let Some(found) = findings.take(found)? {
                findings.begin(&found.name());
                findings.take(found.header)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::internals::DeterministicDb;
    use crate::io::simulated::SimulatedStorage;
    use crate::{Db, Options};

    /// Once, an internal error of this kind made the check itself panic.
    #[test]
    fn a_tree_that_is_not_in_order_is_a_finding() {
        let disk = SimulatedStorage::new(1);
        let db = DeterministicDb::open(Arc::new(disk), Options::default()).unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        let found = |db: &Db| {
            let found = db.verify_with(Depth::Deep, &mut |_| ()).unwrap();
            found.damage.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(found(&db), "");
        let sound = db.inner.view.load_full().disk.clone();
        let publish = |version| db.inner.view.update(|view| (view.generations.clone(), version));
        publish(sound.inconsistent());
        let told = found(&db);
        assert!(told.contains("which none of its slots sees") && told.contains("MANIFEST"), "{told}");
        publish(sound);
        assert_eq!(found(&db), "");
    }
}
