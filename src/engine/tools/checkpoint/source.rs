//! What a copy of an open store is made of: its state at one moment, and the immutable files of that state. Any thread; writers
//! continue.

use crate::branch::{file_name, maplet_name};
use crate::disk::Version;
use crate::engine::engine::Engine;
use crate::engine::state::generation::Generation;
use crate::engine::types::compaction::Cancellation;
use crate::format::page::PAGE_BYTES;
use crate::io::OpenMode;
use crate::manifest::ManifestState;
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use crate::value::value_file_name;
use std::collections::BTreeSet;

/// A file that a copy needs.
pub(in crate::engine::tools) struct Needed {
    pub(in crate::engine::tools) name: String,
    pub(in crate::engine::tools) bytes: u64,
}

fn incorporate(engine: &Engine, cancellation: Option<&Cancellation>) -> Result<()> {
    let background = &engine.background;
    if engine.read.expiry.due().is_some() {
        // What was written last gets its date, so that it does not grow younger in the copy.
        background.expire();
    }
    let is_cancelled = || cancellation.is_some_and(Cancellation::is_cancelled);
    planted!(background.generations.incorporate_all_unless(&is_cancelled), Bug::CheckpointWithoutSwitch => Ok(()))?;
    Cancellation::check(cancellation)
}

/// Incorporates all writes that have returned. Returns the state of a store that has the tree of this one now, and no log; and
/// the version with which the files of the tree stay.
pub(in crate::engine::tools) fn take(
    engine: &Engine,
    cancellation: Option<&Cancellation>,
) -> Result<(ManifestState, Version)> {
    loop {
        incorporate(engine, cancellation)?;
        // Every tree is published under this lock.
        let edits = engine.background.publisher.edits.lock();
        let view = engine.read.view.load();
        let mut state = edits.manifest.state().clone();
        let ingested = view.ingested.max(state.incorporated);
        let is_in_memory =
            |generation: &Arc<Generation>| generation.start() < ingested && !generation.memtable.is_empty();
        // *Otherwise:* a write comes after the incorporation, then an ingest, and the copy has the ingest without the write.
        let is_split = ingested > state.incorporated && view.generations.iter().any(is_in_memory);
        if planted!(is_split, Bug::CheckpointWithoutSwitch => false) {
            continue;
        }
        // All up to there is in the tree.
        state.incorporated = ingested;
        let version = view.disk.clone();
        drop(edits);
        return Ok((state_of_copy(engine, state), version));
    }
}

fn state_of_copy(engine: &Engine, mut state: ManifestState) -> ManifestState {
    planted!(Bug::CheckpointLinksLog => { return state; });
    state.next_file = state.next_file.max(engine.numbers.next());
    // A segment of the store that is copied here by mistake does not count.
    state.log_files_from = state.next_file;
    state.log_segments.clear();
    // The copy has what was incorporated, and that is durable.
    state.log_synced = state.log_synced.min(state.incorporated);
    state
}

/// The files of the tree. They never change.
pub(in crate::engine::tools) fn needed(engine: &Engine, state: &ManifestState) -> Result<Vec<Needed>> {
    let branches = state.branches.values().map(|meta| Needed { name: file_name(meta.file), bytes: meta.bytes });
    let bytes_of = |pages: u32| u64::from(pages) * PAGE_BYTES as u64;
    let maplets = state.maplets.values();
    let maplets = maplets.map(|meta| Needed { name: maplet_name(meta.file), bytes: bytes_of(meta.pages) });
    let mut files: Vec<Needed> = branches.chain(maplets).collect();
    let values: BTreeSet<_> = state.branches.values().flat_map(|meta| &meta.value_files).collect();
    for value in values {
        let name = value_file_name(*value);
        let opened = engine.read.storage.open(&name, OpenMode::Read);
        let bytes = opened.map_err(Error::of_missing_file)?.length()?;
        files.push(Needed { name, bytes });
    }
    planted!(Bug::CheckpointLinksLog => {
        files.extend(state.log_segments.iter().map(|segment| Needed { name: format!("{segment}.log"), bytes: 0 }));
    });
    Ok(files)
}
