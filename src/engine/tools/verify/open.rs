//! Checks an open store while others read and write it. Any thread.

use super::changes::check_changes;
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

/// Lists all damage on disk: checks the manifest file against the state in memory, the current tree with its branch
/// and value files, and the headers of the log segments. The log's records are not checked, because only their
/// writers know where the log ends; recovery and `verify_closed` check them.
pub(crate) fn verify_open(
    engine: &Engine,
    depth: Depth,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<Verification> {
    engine.read.check_open()?;
    let mut findings = Findings::new(depth, progress);
    // The view keeps every file that is checked below.
    let (view, state) = check_manifest(engine, &mut findings)?;
    check_structure(engine, &view.disk, &mut findings);
    let branches = view.disk.branches();
    findings.add_total(branches.iter().map(|branch| branch.meta().bytes).sum());
    // Separate readers, because the store's cache says nothing about the disk.
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
    check_changes(&*engine.read.storage, engine.read.branches.database, &mut findings)?;
    Ok(findings.found)
}

/// Checks that the manifest file replays to the state in memory. Returns the matching view, and the state if it is
/// consistent.
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
            (format!("the state after edit {}", known.edits), format!("the state after edit {}", read.edits));
        findings.damage(Error::corruption(&path, 0, "manifest", expected, found));
    }
    Ok((view, state))
}

/// Checks the tree in memory. Not under the lock, because it visits every reference.
fn check_structure(engine: &Engine, version: &Version, findings: &mut Findings<'_>) {
    if let Err(found) = version.check_structure() {
        let path = engine.read.storage.path_of(MANIFEST_NAME);
        findings.damage(Error::corruption(&path, 0, "node of the tree in memory", "a valid node", found));
    }
}

/// Checks the headers of the segments that are still needed.
fn check_segments(engine: &Engine, findings: &mut Findings<'_>) -> Result<()> {
    for number in engine.background.log.log.live_segments() {
        let found = FoundSegment::open(&*engine.read.storage, number);
        // The segment was recycled or removed since the list was made, so it is not needed any more.
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

    /// Regression: an inconsistent tree made the check itself panic.
    #[test]
    fn an_inconsistent_tree_is_reported() {
        let disk = SimulatedStorage::new(1);
        let db = DeterministicDb::open(Arc::new(disk), Options::default()).unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        let found = |db: &Db| {
            let found = db.verify_with(Depth::Deep, &mut |_| ()).unwrap();
            found.damage.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(found(&db), "");
        let valid = db.engine.read.view.load_full().disk.clone();
        let publish = |version| db.engine.read.view.update(|view| (view.generations.clone(), version));
        publish(valid.inconsistent());
        let reported = found(&db);
        assert!(reported.contains("which none of its slots sees") && reported.contains("MANIFEST"), "{reported}");
        publish(valid);
        assert_eq!(found(&db), "");
    }
}
