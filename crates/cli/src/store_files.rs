//! Lists the files of a store's directory by their names (`docs/recovery.md`, Files). Only names and lengths are read,
//! so this works on a store that another process has open, and on one that cannot be opened.

use alluvium::Error;
use std::fs;
use std::path::Path;

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// The identity of the store and the edits of its tree.
    Manifest,
    /// Recent writes.
    Log,
    /// A log file that is not in use: ready for the next segment, or not finished.
    Spare,
    /// Sorted pairs.
    Branch,
    /// Which branches may hold a key.
    Maplet,
    /// One large value.
    Value,
    /// Locked by the writer.
    Lock,
    /// Records that a sync failed.
    Poison,
    /// Records that a repair was interrupted.
    RepairMark,
    /// Marks a checkpoint that was not finished; means nothing beside a manifest.
    CheckpointMark,
    /// A damaged file that repair has set aside.
    Damaged,
    /// Disk space reserved for recovery from a full disk.
    Ballast,
    /// Statistics that the writer publishes.
    Stats,
    /// Keeps LevelDB from opening the directory.
    Guard,
    /// The name of the custom comparator of a program that uses the LevelDB interface.
    Comparator,
    /// Not a file name of a store. (A file with a valid name may belong to another store; `verify` checks that.)
    Unknown,
}

impl FileKind {
    /// All kinds, in the order of the reports.
    pub const ALL: [Self; 16] = [
        Self::Manifest,
        Self::Log,
        Self::Spare,
        Self::Branch,
        Self::Maplet,
        Self::Value,
        Self::Lock,
        Self::Poison,
        Self::RepairMark,
        Self::CheckpointMark,
        Self::Damaged,
        Self::Ballast,
        Self::Stats,
        Self::Guard,
        Self::Comparator,
        Self::Unknown,
    ];

    /// The kind of a file, by its name.
    pub fn of_name(name: &str) -> Self {
        match name {
            "MANIFEST" | "MANIFEST.new" => Self::Manifest,
            "LOCK" => Self::Lock,
            "POISON" => Self::Poison,
            "CHECKPOINT.new" => Self::CheckpointMark,
            "BALLAST" => Self::Ballast,
            "STATS" => Self::Stats,
            "CURRENT" => Self::Guard,
            "COMPARATOR" | "COMPARATOR.new" => Self::Comparator,
            _ if name.strip_suffix(".damaged").is_some_and(is_of_store) => Self::Damaged,
            _ => match name.split_once('.') {
                Some((number, extension)) if number.len() >= 6 && number.bytes().all(|b| b.is_ascii_digit()) => {
                    match extension {
                        "log" => Self::Log,
                        "free" | "log.new" => Self::Spare,
                        "branch" => Self::Branch,
                        "maplet" => Self::Maplet,
                        "value" => Self::Value,
                        "repair" => Self::RepairMark,
                        _ => Self::Unknown,
                    }
                }
                _ => Self::Unknown,
            },
        }
    }

    /// The name of the kind in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Log => "log",
            Self::Spare => "spare log",
            Self::Branch => "branch",
            Self::Maplet => "maplet",
            Self::Value => "value",
            Self::Lock => "lock",
            Self::Poison => "poison",
            Self::RepairMark => "repair mark",
            Self::CheckpointMark => "checkpoint mark",
            Self::Damaged => "damaged",
            Self::Ballast => "ballast",
            Self::Stats => "figures",
            Self::Guard => "guard",
            Self::Comparator => "comparator",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether a file name without the suffix that repair added is a store's file name.
fn is_of_store(original: &str) -> bool {
    original.starts_with("MANIFEST.") || FileKind::of_name(original) != FileKind::Unknown
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFile {
    /// Its name in the directory.
    pub name: String,
    /// Its kind.
    pub kind: FileKind,
    /// Its length.
    pub bytes: u64,
}

/// Lists the files of a store by kind and name; an error if the directory holds no store.
pub fn list(directory: &Path) -> Result<Vec<StoreFile>, Error> {
    let failed = |source| Error::io("list", directory, source);
    let no_store = |reason: &str| Error::NoStore { path: directory.to_path_buf(), reason: reason.to_string() };
    match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(no_store("it is not a directory")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(no_store("it does not exist")),
        Err(error) => return Err(failed(error)),
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // A process that has the store open removes files as it goes.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        let kind = if metadata.is_file() { FileKind::of_name(&name) } else { FileKind::Unknown };
        files.push(StoreFile { name, kind, bytes: metadata.len() });
    }
    if !files.iter().any(|file| file.kind == FileKind::Manifest) {
        return Err(no_store("it has no MANIFEST"));
    }
    files.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::FileKind;

    #[test]
    fn file_names_determine_kinds() {
        for (name, kind) in [
            ("MANIFEST", FileKind::Manifest),
            ("MANIFEST.new", FileKind::Manifest),
            ("000001.log", FileKind::Log),
            ("000001.free", FileKind::Spare),
            ("000001.log.new", FileKind::Spare),
            ("1234567.branch", FileKind::Branch),
            ("000004.maplet", FileKind::Maplet),
            ("000003.value", FileKind::Value),
            ("000007.repair", FileKind::RepairMark),
            ("LOCK", FileKind::Lock),
            ("POISON", FileKind::Poison),
            ("CHECKPOINT.new", FileKind::CheckpointMark),
            ("000003.value.damaged", FileKind::Damaged),
            ("MANIFEST.2.damaged", FileKind::Damaged),
            ("notes.damaged", FileKind::Unknown),
            ("BALLAST", FileKind::Ballast),
            ("STATS", FileKind::Stats),
            ("CURRENT", FileKind::Guard),
            ("COMPARATOR", FileKind::Comparator),
            ("notes.log", FileKind::Unknown),
            ("000003.value.old", FileKind::Unknown),
            (".branch", FileKind::Unknown),
            ("manifest", FileKind::Unknown),
        ] {
            assert_eq!(FileKind::of_name(name), kind, "{name}");
        }
    }
}
