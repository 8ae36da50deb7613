//! The files of a store's directory by their names (`docs/recovery.md`, Files). Looks at names and lengths only, so it
//! works on a store that another process has open, and on one that does not open.

use alluvium::Error;
use std::fs;
use std::path::Path;

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Identity and edits of the tree.
    Manifest,
    /// Recent writes.
    Log,
    /// A log file without a use: kept for the next segment, or not finished.
    Spare,
    /// Sorted pairs.
    Branch,
    /// Which branches may have a key.
    Maplet,
    /// One large value.
    Value,
    /// Held by the writer.
    Lock,
    /// Tells that a sync failed.
    Poison,
    /// Tells that a repair was cut short.
    RepairMark,
    /// Set aside by repair.
    Damaged,
    /// Room for a full disk.
    Ballast,
    /// What the writer tells of itself.
    Stats,
    /// Keeps LevelDB out of the directory.
    Guard,
    /// Names the order of a program with LevelDB's interface.
    Comparator,
    /// By its name none that a store makes. (Whether one with a store's name is of another store, `verify` tells.)
    Unknown,
}

impl FileKind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 15] = [
        Self::Manifest,
        Self::Log,
        Self::Spare,
        Self::Branch,
        Self::Maplet,
        Self::Value,
        Self::Lock,
        Self::Poison,
        Self::RepairMark,
        Self::Damaged,
        Self::Ballast,
        Self::Stats,
        Self::Guard,
        Self::Comparator,
        Self::Unknown,
    ];

    /// The kind that a name tells.
    pub fn of_name(name: &str) -> Self {
        match name {
            "MANIFEST" | "MANIFEST.new" => Self::Manifest,
            "LOCK" => Self::Lock,
            "POISON" => Self::Poison,
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

    /// Its name in reports.
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
            Self::Damaged => "damaged",
            Self::Ballast => "ballast",
            Self::Stats => "figures",
            Self::Guard => "guard",
            Self::Comparator => "comparator",
            Self::Unknown => "unknown",
        }
    }
}

/// Whether a name without what repair put behind it is one of a store's file.
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

/// The files of a store by kind and name; an error if the directory holds none.
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
    fn names_tell_kinds() {
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
