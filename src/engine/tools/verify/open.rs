//! Checks a store that is open, beside readers and writers. Any thread.

use super::closed::{check_branch, check_maplet, check_tree};
use super::findings::Findings;
use crate::disk::Version;
use crate::engine::engine::Engine;
use crate::engine::state::view::View;
use crate::engine::tools::offline::Readers;
use crate::engine::types::verification::{CheckProgress, Depth, Verification};
use crate::log::salvage::FoundSegment;
use crate::manifest::{MANIFEST_NAME, ManifestState, read_state};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};
use std::collections::BTreeSet;

/// Lists everything that is wrong on disk: the manifest against what the store knows, the tree of this moment with its
/// branch and value files, headers of the log's segments. (The log's records are read by recovery and by `verify_closed`:
/// while it is written to, only its writers know where it ends.)
pub(crate) fn verify_open(
    engine: &Engine,
    depth: Depth,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<Verification> {
    engine.read.check_open()?;
    let mut findings = Findings::new(depth, progress);
    // The view holds every file that is checked below.
    let (view, state) = check_manifest(engine, &mut findings)?;
    check_structure(engine, &view.disk, &mut findings);
    let branches = view.disk.branches();
    findings.await_bytes(branches.iter().map(|branch| branch.meta().bytes).sum());
    // Its own readers: what the store has in its cache says nothing of the disk.
    let readers = Readers::new(&engine.read.storage, engine.read.branches.database, engine.numbers.next());
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
    check_segments(engine, &mut findings)?;
    Ok(findings.found)
}

/// The file must replay to what the store works on. Gives the view that belongs to it, and the state where it is in order.
fn check_manifest(engine: &Engine, findings: &mut Findings<'_>) -> Result<(Arc<View>, Option<ManifestState>)> {
    findings.begin(MANIFEST_NAME);
    // Every tree is published under this lock.
    let edits = engine.background.publisher.edits.lock();
    let view = engine.read.view.load_full();
    let path = engine.read.storage.path_of(MANIFEST_NAME);
    let known = edits.manifest.state();
    let checked = known.check().and_then(|()| view.disk.check_against(known));
    let state = checked.is_ok().then(|| known.clone());
    if let Err(found) = checked {
        findings.damage(Error::corruption(&path, 0, "structure of the tree", "a consistent tree", found));
    }
    let read = match read_state(&*engine.read.storage) {
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
fn check_structure(engine: &Engine, version: &Version, findings: &mut Findings<'_>) {
    if let Err(found) = version.check_structure() {
        let path = engine.read.storage.path_of(MANIFEST_NAME);
        findings.damage(Error::corruption(&path, 0, "node of the tree in memory", "one in order", found));
    }
}

/// The headers of the segments that hold something that is needed.
fn check_segments(engine: &Engine, findings: &mut Findings<'_>) -> Result<()> {
    for number in engine.background.log.log.live_segments() {
        let found = FoundSegment::open(&*engine.read.storage, number);
        // Recycled or removed since the list was made: nothing of it is needed any more.
        if !engine.background.log.log.live_segments().contains(&number) {
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
        let sound = db.engine.read.view.load_full().disk.clone();
        let publish = |version| db.engine.read.view.update(|view| (view.generations.clone(), version));
        publish(sound.inconsistent());
        let told = found(&db);
        assert!(told.contains("which nothing sees") && told.contains("MANIFEST"), "{told}");
        publish(sound);
        assert_eq!(found(&db), "");
    }
}
