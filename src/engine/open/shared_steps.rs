//! The steps that an opening for writing and a read-only opening share: making the readers of files, checks of the
//! manifest, recovery.

use crate::branch::{BranchContext, BranchResources, ExtentMemory};
use crate::cache::{FileTable, PageCache};
use crate::engine::expiry::Expiry;
use crate::engine::latency::LatencyHistograms;
use crate::engine::read::cached_cursors::CachedCursors;
use crate::engine::read::read_path::ReadPath;
use crate::engine::resources::resources::Resources;
use crate::engine::state::keyspaces::Keyspaces;
use crate::engine::state::latches::Latches;
use crate::engine::state::shared_snapshot::SharedSnapshot;
use crate::engine::state::snapshot_registry::SnapshotRegistry;
use crate::engine::state::value_file_refs::ValueFileRefs;
use crate::engine::state::view::ViewCell;
use crate::engine::types::keyspace_info::OpeningId;
use crate::engine::types::options::{COMPARATOR, Options};
use crate::format::value_file::ValueReference;
use crate::io::{OpenMode, Storage};
use crate::log::salvage::{FoundSegment, found_segments};
use crate::log::{self, Access, Recovered, RecoveryInput};
use crate::manifest::ManifestState;
use crate::merge::{MergeOperators, ScanLength};
use crate::util::sequencer::Sequencer;
use crate::util::sync::Arc;
use crate::util::{Error, FileNumbers, Result, SequenceNumber, fork};
use crate::value::ValueFiles;

/// The most branch files that are open at once.
const FILES_OPEN_MAX: usize = 512;

/// The inputs of both kinds of opening.
pub(super) struct OpenInputs<'a> {
    pub(super) storage: &'a Arc<dyn Storage>,
    pub(super) options: &'a Options,
    pub(super) state: &'a ManifestState,
}

/// The readers of the files of a store. They are made before recovery, which needs them.
pub(super) struct FileReaders {
    values: ValueFiles,
    pub(super) value_file_refs: Arc<ValueFileRefs>,
    cache: Arc<PageCache>,
    measures_latencies: bool,
    pub(super) branches: Arc<BranchContext>,
}

impl FileReaders {
    pub(super) fn new(
        inputs: &OpenInputs<'_>,
        numbers: &Arc<FileNumbers>,
        cache: &Arc<PageCache>,
        extents: &Arc<ExtentMemory>,
    ) -> Self {
        let OpenInputs { storage, options, state } = *inputs;
        // Nobody has said how much memory the store may use, so what the machine has to spare is used, too.
        let names_memory =
            options.memory_budget.is_some() || options.resources.as_ref().is_some_and(Resources::names_memory);
        let mode = if names_memory { OpenMode::ReadPages } else { OpenMode::ReadCached };
        let branches = BranchContext::new(BranchResources {
            storage: Arc::clone(storage),
            database: state.identity.database,
            cache: Arc::clone(cache),
            files: Arc::new(FileTable::with_mode(Arc::clone(storage), FILES_OPEN_MAX, mode)),
            numbers: Arc::clone(numbers),
            form: options.branch_form(),
            extents: Arc::clone(extents),
        });
        let value_file_refs = Arc::new(ValueFileRefs::default());
        for file in state.branches.values().flat_map(|meta| &meta.value_files) {
            value_file_refs.add(*file);
        }
        let values = ValueFiles::new(Arc::clone(storage), state.identity.database).read_in(mode);
        storage.set_store_bytes(state.branches.values().map(|meta| meta.bytes).sum());
        Self { values, value_file_refs, cache: Arc::clone(cache), measures_latencies: options.latencies, branches }
    }

    /// The read path over these readers. `last` is the number of the last write.
    pub(super) fn into_read_path(
        self,
        storage: Arc<dyn Storage>,
        snapshots: Arc<SnapshotRegistry>,
        last: SequenceNumber,
        view: ViewCell,
        merge_operators: Arc<MergeOperators>,
    ) -> ReadPath {
        let latencies = match self.measures_latencies {
            true => LatencyHistograms::new(snapshots.clock()),
            false => LatencyHistograms::default(),
        };
        ReadPath {
            storage,
            sequencer: Sequencer::new(last),
            latches: Latches::new(),
            range_deletes: Arc::default(),
            view,
            snapshots,
            shared_snapshot: SharedSnapshot::default(),
            cached_cursors: CachedCursors::default(),
            scan_length: ScanLength::default(),
            values: self.values,
            value_file_refs: self.value_file_refs,
            cache: self.cache,
            branches: self.branches,
            closed: false.into(),
            merge_operators,
            keyspaces: Keyspaces::default(),
            expiry: Expiry::default(),
            latencies,
            opening: OpeningId::next(),
            process: fork::ForkCount::current(),
        }
    }
}

/// An error if a keyspace was created with another comparator.
pub(crate) fn check_keyspaces(storage: &dyn Storage, state: &ManifestState) -> Result<()> {
    for keyspace in &state.keyspaces {
        if keyspace.comparator != COMPARATOR {
            return Err(Error::Mismatch {
                path: storage.path().to_path_buf(),
                what: "comparator",
                stored: keyspace.comparator.clone(),
                asked: COMPARATOR.into(),
            });
        }
    }
    Ok(())
}

/// `docs/recovery.md`, R8: an error if the log knows of more manifest edits than the manifest has. It comes before the
/// check of the branch files, since a shortened manifest names files that were removed long ago. Changes nothing.
/// Requires that no writer is open.
pub(crate) fn check_manifest_end(storage: &dyn Storage, state: &ManifestState) -> Result<()> {
    let counts = |segment: &FoundSegment| match &segment.header {
        Ok(header) => {
            header.database == state.identity.database
                && header.number == segment.number
                && header.number >= state.log_files_from
                && header.epoch >= state.log_epochs_from
        }
        // Recovery names the damage.
        Err(_) => false,
    };
    let segments = found_segments(storage)?;
    let marks = segments.iter().filter(|segment| counts(segment)).filter_map(|segment| segment.mark);
    let marked = marks.map(|mark| mark.manifest_edit).max().unwrap_or(0);
    if marked <= state.edits {
        return Ok(());
    }
    Err(log::missing_edits(storage, marked, state.edits))
}

/// An error if a branch file is missing or has a wrong length, before anything is written. Its pages are checked when
/// they are read.
pub(crate) fn check_branches(storage: &dyn Storage, state: &ManifestState) -> Result<()> {
    for meta in state.branches.values() {
        let opened = storage.open(&crate::branch::file_name(meta.file), OpenMode::Read);
        let file = opened.map_err(Error::of_missing_file)?;
        let length = file.length()?;
        if length != meta.bytes {
            return Err(Error::corruption(file.path(), length, "file length", meta.bytes, length));
        }
    }
    Ok(())
}

/// Recovers the log, on `threads` threads. With `Access::Write` the value files that records refer to are durable
/// afterwards.
pub(super) fn recover(
    inputs: &OpenInputs<'_>,
    readers: &FileReaders,
    access: Access,
    threads: usize,
) -> Result<Recovered> {
    let OpenInputs { storage, options, state, .. } = *inputs;
    let value_complete = |bytes: &[u8]| match ValueReference::decode(bytes) {
        // The value files that recovery relies on must be durable before its edit. The opening of the manifest has made
        // their names durable.
        Some(reference) if readers.values.is_complete(&reference)? => {
            if access != Access::Write {
                return Ok(true);
            }
            storage.open(&crate::value::value_file_name(reference.file), OpenMode::ReadWrite)?.sync()?;
            Ok(true)
        }
        Some(_) | None => Ok(false),
    };
    let input = RecoveryInput {
        storage: &**storage,
        database: state.identity.database,
        recovered: &state.recovered,
        incorporated: state.incorporated,
        epochs_from: state.log_epochs_from,
        files_from: state.log_files_from,
        segments: &state.log_segments,
        synced: state.log_synced,
        manifest_edits: state.edits,
        life: storage.life(),
        force_cut: options.force_cut,
        access,
        threads,
        value_complete: &value_complete,
    };
    log::recover(input)
}
