//! `Db`: operations that need no open store: verify, repair, convert, destroy, and reading the statistics of a running store.

use super::db::Db;
use crate::engine::open::destroying;
use crate::engine::statistics::live_stats;
use crate::engine::tools::{convert, repair, verify};
use crate::engine::types::conversion::ConvertReport;
use crate::engine::types::options::Options;
use crate::engine::types::repair_report::RepairReport;
use crate::engine::types::stats::LiveStats;
use crate::engine::types::verification::{CheckProgress, Depth, Verification};
use crate::io::{PosixStorage, Storage};
use crate::util::Result;
use std::path::Path;
use std::sync::Arc;

/// Operations that need no open store.
impl Db {
    /// Checks the files of a closed store, even if it cannot be opened, and lists all damage. Changes nothing.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Depth, Options};
    /// Db::open(directory.path(), Options::default())?.close()?;
    /// let found = Db::verify_closed(directory.path(), Depth::Deep, &mut |_| ())?;
    /// assert!(found.is_valid());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoStore`, `AlreadyOpen`, `Io` if a file could not be checked. Damage is reported in the result, not as an
    /// error.
    pub fn verify_closed(
        path: impl AsRef<Path>,
        depth: Depth,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<Verification> {
        Self::verify_closed_with(Arc::new(PosixStorage::new(path.as_ref())), depth, progress)
    }

    /// Like `verify_closed`, on another implementation of `Storage`.
    pub fn verify_closed_with(
        storage: Arc<dyn Storage>,
        depth: Depth,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<Verification> {
        verify::verify_closed(&storage, depth, progress)
    }

    /// Rebuilds a closed store from its readable files, and reports what was saved and what was lost. Does nothing
    /// if the store is not damaged. Damaged files are kept under names that end with `.damaged`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options};
    /// Db::open(directory.path(), Options::default())?.close()?;
    /// std::fs::remove_file(directory.path().join("MANIFEST")).unwrap();
    /// let report = Db::repair(directory.path(), &mut |_| ())?;
    /// assert!(report.changed && report.manifest_lost.is_some());
    /// Db::open(directory.path(), Options::default())?.close()?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoStore`, `AlreadyOpen`, `NewerFormat`, `Io`. After an `Io` error the store is either as before (with some
    /// `*.damaged` names added) or already repaired; repair may be called again.
    pub fn repair(path: impl AsRef<Path>, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<RepairReport> {
        Self::repair_with(Arc::new(PosixStorage::new(path.as_ref())), progress)
    }

    /// Like `repair`, on another implementation of `Storage`.
    pub fn repair_with(storage: Arc<dyn Storage>, progress: &mut dyn FnMut(CheckProgress<'_>)) -> Result<RepairReport> {
        repair::repair(&storage, progress)
    }

    /// Rewrites a closed store for another disk component, or for levels of another shape: `options.disk_component`. The
    /// contents stay, with all sequence numbers and the store's identity. Old versions and tombstones are left out. Values
    /// in files of their own are not copied. If the store has the component already, nothing is done.
    ///
    /// Takes about as much free space as the branch files have live bytes, and checks that first. If the process is
    /// killed, or the power fails, the store is whole and either as before or converted; the next opening removes what
    /// was left over. Of the other options, `compression` and `maplets` count, for the new files: pass those with which
    /// the store will be opened.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, DiskComponent, LevelsOptions, Options};
    /// let db = Db::open(directory.path(), Options::default())?;
    /// db.put("river", "silt")?;
    /// db.close()?;
    /// let leveled = DiskComponent::Levels(LevelsOptions::leveled());
    /// let options = Options::new().disk_component(leveled);
    /// let report = Db::convert(directory.path(), &options, &mut |_| ())?;
    /// assert_eq!((report.component_before, report.component), ("trunk", "leveled"));
    /// let db = Db::open(directory.path(), options)?;
    /// assert_eq!(db.get("river")?.as_deref(), Some(&b"silt"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// - `InvalidArgument` if `disk_component` is not set or has options outside their bounds.
    /// - `NoStore`; `AlreadyOpen` if the store is open anywhere, be it read-only.
    /// - `Corruption` if the store is damaged, `NewerFormat`, `Mismatch`, as when it is opened.
    /// - `Io`; if there is too little space, it says how much is needed (`Error::is_disk_full`).
    ///
    /// After an error the store is as before. After an error that names the manifest, or a file that could not be
    /// removed, it may be converted already. In both cases `convert` may be called again.
    pub fn convert(
        path: impl AsRef<Path>,
        options: &Options,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<ConvertReport> {
        Self::convert_with(Arc::new(PosixStorage::new(path.as_ref())), options, progress)
    }

    /// Like `convert`, on another implementation of `Storage`.
    pub fn convert_with(
        storage: Arc<dyn Storage>,
        options: &Options,
        progress: &mut dyn FnMut(CheckProgress<'_>),
    ) -> Result<ConvertReport> {
        convert::convert(&storage, options, progress)
    }

    /// Returns the latest published statistics of a store that another process, or another `Db` in this process, has
    /// open for writing. `None` if no process has the store open for writing, or if it was opened less than two seconds
    /// ago. The call is cheap, since it does not open the store.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options};
    /// Db::open(directory.path(), Options::default())?.close()?;
    /// assert_eq!(Db::live_stats(directory.path())?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoStore`, `Io`.
    pub fn live_stats(path: impl AsRef<Path>) -> Result<Option<LiveStats>> {
        live_stats::read(&PosixStorage::new(path.as_ref()))
    }

    /// Deletes a closed store, and its directory if no other files remain in it. A store that a `Db` or a `ReadOnlyDb` of any
    /// process has open is not changed.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path().join("rivers");
    /// use alluvium::{Db, Options};
    /// Db::open(&path, Options::default())?.close()?;
    /// Db::destroy(&path)?;
    /// assert!(!path.exists());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoStore`, `Io`; `AlreadyOpen` if the store is open for writing or reading.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        destroying::destroy(&PosixStorage::new(path.as_ref()))
    }
}
