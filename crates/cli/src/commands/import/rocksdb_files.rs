//! The files of a RocksDB directory, by their names: enough to recognize one, and to know where its log is.

use std::fs;
use std::path::Path;

/// Begins the names of the files that have the options, before a number.
const OPTIONS: &str = "OPTIONS-";

/// Whether RocksDB wrote the directory: LevelDB has neither of these files.
pub fn is_database(directory: &Path) -> bool {
    directory.join("IDENTITY").exists() || names(directory).iter().any(|name| name.starts_with(OPTIONS))
}

/// The names in a directory; none if it cannot be read.
fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

#[cfg(feature = "rocksdb")]
pub use logs::{LogPlace, log_place, logs};

#[cfg(feature = "rocksdb")]
mod logs {
    use super::{OPTIONS, names};
    use std::fs;
    use std::path::{Path, PathBuf};

    /// The lengths of the log files in a directory.
    pub fn logs(directory: &Path) -> Vec<u64> {
        let names = names(directory).into_iter().filter(|name| is_number(name.strip_suffix(".log")));
        names.map(|name| fs::metadata(directory.join(name)).map_or(0, |metadata| metadata.len())).collect()
    }

    /// Where the log of a database is.
    #[derive(Debug, PartialEq, Eq)]
    pub enum LogPlace {
        /// In the directory of the database, or nowhere.
        Inside,
        /// In another directory, which the options name.
        Elsewhere(PathBuf),
        /// In another directory, which does not exist.
        Missing(PathBuf),
    }

    /// Finds the log of a database. RocksDB always leaves a log file, so if there is one beside the tables, it is the log.
    /// Otherwise the options may name another directory. Older versions name the database itself there; if it was moved or
    /// copied since, its old directory, which means nothing.
    pub fn log_place(directory: &Path) -> LogPlace {
        let Some(named) = named_by_options(directory).filter(|_| logs(directory).is_empty()) else {
            return LogPlace::Inside;
        };
        if !named.exists() {
            return LogPlace::Missing(named);
        }
        if named.join("CURRENT").exists() || logs(&named).is_empty() {
            return LogPlace::Inside;
        }
        LogPlace::Elsewhere(named)
    }

    /// The `wal_dir` of the newest file of options, if it is set.
    fn named_by_options(directory: &Path) -> Option<PathBuf> {
        let names = names(directory);
        let numbers =
            names.iter().filter_map(|name| name.strip_prefix(OPTIONS)).filter(|number| is_number(Some(number)));
        let newest = numbers.max_by_key(|number| number.parse::<u64>().unwrap_or_default())?;
        let text = fs::read_to_string(directory.join(format!("{OPTIONS}{newest}"))).ok()?;
        let path = text.lines().find_map(|line| line.trim().strip_prefix("wal_dir="))?.trim();
        (!path.is_empty()).then(|| PathBuf::from(path))
    }

    fn is_number(text: Option<&str>) -> bool {
        text.is_some_and(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_log_is_found_beside_the_tables_or_where_the_options_say() {
            let parent = tempfile::tempdir().unwrap();
            let (database, other) = (parent.path().join("database"), parent.path().join("other"));
            fs::create_dir(&database).unwrap();
            assert_eq!(log_place(&database), LogPlace::Inside);
            let options = |number: u32, wal_dir: &str| {
                fs::write(database.join(format!("OPTIONS-{number:06}")), format!("[DBOptions]\n  wal_dir={wal_dir}\n"))
            };
            options(5, "").unwrap();
            fs::write(database.join("OPTIONS-000012.dbtmp"), "  wal_dir=/nowhere\n").unwrap();
            assert_eq!(log_place(&database), LogPlace::Inside);
            options(11, other.to_str().unwrap()).unwrap();
            assert_eq!(log_place(&database), LogPlace::Missing(other.clone()));
            fs::create_dir(&other).unwrap();
            fs::write(other.join("LOG"), "no log file\n").unwrap();
            assert_eq!(log_place(&database), LogPlace::Inside);
            fs::write(other.join("000010.log"), "four").unwrap();
            assert_eq!(log_place(&database), LogPlace::Elsewhere(other.clone()));
            assert_eq!(logs(&other), [4]);
            // The directory that the database was copied from.
            fs::write(other.join("CURRENT"), "MANIFEST-000004\n").unwrap();
            assert_eq!(log_place(&database), LogPlace::Inside);
            fs::remove_file(other.join("CURRENT")).unwrap();
            fs::write(database.join("000010.log"), "").unwrap();
            assert_eq!(log_place(&database), LogPlace::Inside);
        }
    }
}
