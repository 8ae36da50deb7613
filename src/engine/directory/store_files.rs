//! Names of a store's files, and the check whether a directory holds a store.

use super::leveldb_guard;
use crate::io::Storage;
use crate::log::Role;
use crate::util::{Error, FileNumber, Result};

pub(crate) const LOCK: &str = "LOCK";
const MANIFEST: &str = crate::manifest::MANIFEST_NAME;
const MANIFEST_NEW: &str = crate::manifest::MANIFEST_NEW_NAME;
const POISON: &str = crate::log::POISON;
/// Reserves space for a full disk.
pub(crate) const BALLAST: &str = "BALLAST";
/// The writer's statistics, for other processes.
pub(crate) const STATS: &str = "STATS";
/// Names the comparator of a store that `crates/leveldb` created. This crate only knows that the file belongs to the
/// store.
pub(crate) const COMPARATOR: &str = "COMPARATOR";
const COMPARATOR_NEW: &str = "COMPARATOR.new";
/// Marks the directory of a checkpoint that is not finished.
pub(crate) const CHECKPOINT_MARK: &str = "CHECKPOINT.new";
const VALUE_SUFFIX: &str = ".value";
const REPAIR_SUFFIX: &str = ".repair";
/// Suffix of files that repair set aside.
pub(crate) const DAMAGED_SUFFIX: &str = ".damaged";

/// A file of a store, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreFile {
    Lock,
    Manifest,
    NewManifest,
    Poison,
    /// Reserved space for a full disk.
    Ballast,
    /// The writer's statistics.
    Stats,
    /// Keeps LevelDB out, if its content is a guard's (`leveldb_guard.rs`).
    Guard,
    /// Names the comparator.
    Comparator,
    /// Marks the directory of a checkpoint that is not finished, if there is no manifest.
    CheckpointMark,
    Log(FileNumber),
    /// An unused log file: recycled, or not finished.
    SpareLog(FileNumber),
    /// The newest part of the log.
    Shadow(FileNumber),
    Branch(FileNumber),
    Maplet(FileNumber),
    Value(FileNumber),
    /// Writes that are kept for followers.
    Changes(FileNumber),
    /// Marks a running or interrupted repair or conversion, which created the branch files with higher numbers.
    RepairMark(FileNumber),
    /// Set aside by repair; nothing reads it. The number is the one in its name.
    Damaged(Option<FileNumber>),
}

impl StoreFile {
    /// Parses a name; `None` if it is not a store's file.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            LOCK => return Some(Self::Lock),
            MANIFEST => return Some(Self::Manifest),
            MANIFEST_NEW => return Some(Self::NewManifest),
            POISON => return Some(Self::Poison),
            BALLAST => return Some(Self::Ballast),
            STATS => return Some(Self::Stats),
            CHECKPOINT_MARK => return Some(Self::CheckpointMark),
            leveldb_guard::NAME => return Some(Self::Guard),
            COMPARATOR | COMPARATOR_NEW => return Some(Self::Comparator),
            _ => {}
        }
        if let Some(original) = name.strip_suffix(DAMAGED_SUFFIX) {
            let manifest = original.strip_prefix(MANIFEST).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            let original = Self::parse(original);
            return (manifest || original.is_some()).then(|| Self::Damaged(original.and_then(Self::number)));
        }
        if let Some((number, role)) = crate::log::parse_file_name(name) {
            return Some(match role {
                Role::Segment => Self::Log(number),
                Role::Free | Role::New => Self::SpareLog(number),
                Role::Shadow => Self::Shadow(number),
            });
        }
        if let Some(number) = crate::branch::parse_file_name(name) {
            return Some(Self::Branch(number));
        }
        if let Some(number) = crate::branch::parse_maplet_name(name) {
            return Some(Self::Maplet(number));
        }
        if let Some(number) = crate::changes::parse_change_file_name(name) {
            return Some(Self::Changes(number));
        }
        if let Some(number) = name.strip_suffix(REPAIR_SUFFIX) {
            let number = FileNumber(number.parse().ok()?);
            return (repair_mark_name(number) == name).then_some(Self::RepairMark(number));
        }
        let number = FileNumber(name.strip_suffix(VALUE_SUFFIX)?.parse().ok()?);
        (crate::value::value_file_name(number) == name).then_some(Self::Value(number))
    }

    /// The file number in the name.
    pub(crate) fn number(self) -> Option<FileNumber> {
        match self {
            Self::Log(number) | Self::SpareLog(number) | Self::Branch(number) | Self::Value(number) => Some(number),
            Self::RepairMark(number) | Self::Maplet(number) | Self::Shadow(number) => Some(number),
            Self::Changes(number) => Some(number),
            Self::Damaged(number) => number,
            Self::Lock | Self::Manifest | Self::NewManifest | Self::Poison | Self::Ballast => None,
            Self::Stats | Self::Guard | Self::Comparator | Self::CheckpointMark => None,
        }
    }
}

/// The name of a repair mark.
pub(crate) fn repair_mark_name(number: FileNumber) -> String {
    format!("{number}{REPAIR_SUFFIX}")
}

/// Content of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is no directory, or it is empty, or it holds only what an interrupted creation leaves.
    Empty,
    Store,
}

/// Checks a directory without writing. Returns an error if a store must not be created in it.
pub(crate) fn inspect(storage: &dyn Storage) -> Result<Found> {
    if !storage.directory_exists()? {
        return Ok(Found::Empty);
    }
    let names = storage.list()?;
    if names.iter().any(|name| name == MANIFEST) {
        return Ok(Found::Store);
    }
    check_finished(storage, &names)?;
    let no_store = |reason: String| Err(Error::NoStore { path: storage.path().to_path_buf(), reason });
    if names.iter().any(|name| name == leveldb_guard::NAME) && names.iter().any(|name| name.starts_with("MANIFEST-")) {
        return no_store(
            "it is a database of LevelDB's kind; `alluvium import --from leveldb` loads one into a new directory"
                .into(),
        );
    }
    // An interrupted creation leaves at most these files.
    let is_leftover = |name: &String| match StoreFile::parse(name) {
        Some(StoreFile::Lock | StoreFile::NewManifest) => true,
        Some(StoreFile::Guard) => leveldb_guard::exists(storage),
        _ => false,
    };
    match names.iter().find(|name| !is_leftover(name)) {
        None => Ok(Found::Empty),
        Some(name) if !matches!(StoreFile::parse(name), None | Some(StoreFile::Guard | StoreFile::Comparator)) => {
            let path = storage.path_of(MANIFEST);
            let found = format!("none beside {name:?}; `alluvium repair` saves what can be saved");
            Err(Error::corruption(&path, 0, "file", "the store's manifest", found))
        }
        Some(name) => {
            no_store(format!("the directory has no {MANIFEST}, but holds {name:?}; choose an empty or a new directory"))
        }
    }
}

/// An error if the directory is that of a checkpoint that was not finished.
pub(crate) fn check_finished(storage: &dyn Storage, names: &[String]) -> Result<()> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has(MANIFEST) || !has(CHECKPOINT_MARK) {
        return Ok(());
    }
    let reason = "a checkpoint is being made here, or was not finished, or a backup is being restored; if no process does that any \
                  more, remove the directory and begin anew";
    Err(Error::NoStore { path: storage.path().to_path_buf(), reason: reason.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        assert_eq!(StoreFile::parse("000012.branch"), Some(StoreFile::Branch(FileNumber(12))));
        assert_eq!(StoreFile::parse("1234567.log"), Some(StoreFile::Log(FileNumber(1_234_567))));
        assert_eq!(StoreFile::parse("000012.log.new"), Some(StoreFile::SpareLog(FileNumber(12))));
        assert_eq!(StoreFile::parse("000012.value"), Some(StoreFile::Value(FileNumber(12))));
        assert_eq!(StoreFile::parse("000012.maplet"), Some(StoreFile::Maplet(FileNumber(12))));
        assert_eq!(StoreFile::parse("000012.changes"), Some(StoreFile::Changes(FileNumber(12))));
        assert_eq!(StoreFile::parse("000012.repair"), Some(StoreFile::RepairMark(FileNumber(12))));
        assert_eq!(StoreFile::parse("MANIFEST"), Some(StoreFile::Manifest));
        assert_eq!(StoreFile::parse("BALLAST"), Some(StoreFile::Ballast));
        assert_eq!(StoreFile::parse("STATS"), Some(StoreFile::Stats));
        assert_eq!(StoreFile::parse("CHECKPOINT.new"), Some(StoreFile::CheckpointMark));
        assert_eq!(StoreFile::parse("000012.value.damaged"), Some(StoreFile::Damaged(Some(FileNumber(12)))));
        for manifest in ["MANIFEST.damaged", "MANIFEST.2.damaged"] {
            assert_eq!(StoreFile::parse(manifest), Some(StoreFile::Damaged(None)), "{manifest}");
        }
        for other in [
            "12.branch",
            "12.repair",
            "00001x.log",
            "000012.txt",
            "000012.branch.bak",
            "",
            "sub/",
            "thesis.damaged",
            ".damaged",
        ] {
            assert_eq!(StoreFile::parse(other), None, "{other}");
        }
    }
}
