//! A checkpoint: a second store in another directory, with the contents that an open store had at one moment
//! (`docs/recovery.md`, Checkpoint). Any thread; writers continue.
//!
//! The tree consists of files that never change once they are written, so they are linked. What is only in memory is
//! incorporated first, so the checkpoint needs no log.
//!
//! Invariants:
//! 1. The files that are linked are those of one state of the manifest. It and the version that keeps its files are taken under the
//!    edit mutex, so they belong together.
//! 2. Nothing is linked that is written again under this or another name: no log segment, no manifest.
//! 3. The manifest gets its name last, when everything that it names is durable. Until then the directory has the mark, and
//!    no manifest.

mod report;
pub(in crate::engine::tools) mod source;
pub(in crate::engine::tools) mod target;

pub use report::{CheckpointOptions, CheckpointReport};

use crate::engine::directory::{leveldb_guard, store_files};
use crate::engine::engine::Engine;
use crate::engine::types::compaction::Cancellation;
use crate::engine::types::verification::CheckProgress;
use crate::io::copy_into;
use crate::manifest::{MANIFEST_NAME, ManifestState};
use crate::util::planted::planted;
use crate::util::{Error, Result};
use source::Needed;
use std::io::ErrorKind;
use std::path::Path;
use target::Target;

/// Makes a checkpoint of the open store in the directory at `path`.
///
/// # Errors
/// `InvalidArgument` if the directory is not empty or lies in the store's own; `AlreadyOpen`; `Cancelled`; the errors of a flush;
/// `Io`.
/// After an error nothing is left of the checkpoint, as far as it can be removed.
pub(crate) fn checkpoint(
    engine: &Engine,
    path: &Path,
    options: &CheckpointOptions,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<CheckpointReport> {
    engine.read.check_open()?;
    engine.health.check()?;
    Cancellation::check(options.cancellation.as_ref())?;
    let target = Target::create(engine.read.storage.other_directory(path)?)?;
    let mut run = Run { engine, target: &target, options, progress, report: CheckpointReport::default() };
    match run.run() {
        Ok(()) => {
            let report = run.report;
            target.finish();
            Ok(report)
        }
        Err(error) => {
            target.discard();
            Err(error)
        }
    }
}

/// A checkpoint in progress.
struct Run<'a> {
    engine: &'a Engine,
    target: &'a Target,
    options: &'a CheckpointOptions,
    progress: &'a mut dyn FnMut(CheckProgress<'_>),
    report: CheckpointReport,
}

impl Run<'_> {
    fn run(&mut self) -> Result<()> {
        let (state, version) = source::take(self.engine, self.options.cancellation.as_ref())?;
        self.report.number = state.incorporated.0;
        planted!(Bug::CheckpointPublishedFirst => { self.target.publish(&state)?; });
        let linked = self.link_all(&state);
        drop(version);
        // Files that a merge has replaced meanwhile may be removed now.
        self.engine.background.scheduler.wake_workers();
        linked?;
        self.copy_comparator()?;
        leveldb_guard::ensure(self.target.storage());
        self.check_going_on()?;
        self.target.publish(&state)
    }

    /// An error if the checkpoint is cancelled, or the store was closed meanwhile: it may be open in another process, which
    /// removes files.
    fn check_going_on(&self) -> Result<()> {
        Cancellation::check(self.options.cancellation.as_ref())?;
        self.engine.read.check_open()
    }

    fn link_all(&mut self, state: &ManifestState) -> Result<()> {
        let files = source::needed(self.engine, state)?;
        let bytes_total = files.iter().map(|file| file.bytes).sum();
        let mut bytes_done = 0;
        for Needed { name, bytes } in files {
            (self.progress)(CheckProgress { file: &name, bytes_done, bytes_total });
            self.check_going_on()?;
            self.link(&name, bytes)?;
            bytes_done += bytes;
        }
        (self.progress)(CheckProgress { file: MANIFEST_NAME, bytes_done, bytes_total });
        Ok(())
    }

    /// Links a file, or copies it where that is not possible.
    fn link(&mut self, name: &str, bytes: u64) -> Result<()> {
        let (source, target) = (&*self.engine.read.storage, self.target.storage());
        if source.link_into(name, target, name).map_err(Error::of_missing_file)? {
            self.report.files_linked += 1;
            self.report.bytes_linked += bytes;
            return Ok(());
        }
        if self.options.links_only {
            let text = "it cannot be linked to the checkpoint's directory, probably because that is on another file system; \
                        choose one on the store's file system, or let files be copied";
            let error = std::io::Error::new(ErrorKind::CrossesDevices, text);
            return Err(Error::io("link", &source.path_of(name), error));
        }
        self.report.files_copied += 1;
        let copied = copy_into((source, name), (target, name), &|| self.check_going_on());
        self.report.bytes_copied += copied.map_err(Error::of_missing_file)?;
        Ok(())
    }

    /// Copies the file that names the comparator, if there is one. It is not a file of the tree, so it is not counted.
    fn copy_comparator(&self) -> Result<()> {
        let (source, target) = (&*self.engine.read.storage, self.target.storage());
        let name = store_files::COMPARATOR;
        match copy_into((source, name), (target, name), &|| self.check_going_on()) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
            copied => copied.map(drop),
        }
    }
}
