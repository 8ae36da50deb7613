//! The list of a database's files: the file that `CURRENT` names, a log whose records are edits.
//!
//! | tag | fields |
//! | --- | --- |
//! | 1 | the comparator's name |
//! | 2 | number of the oldest log that is needed |
//! | 3 | next file number |
//! | 4 | last sequence number |
//! | 5 | level, key: the start of the level's next compaction |
//! | 6 | level, number of a removed table |
//! | 7 | level, number, length, smallest and largest key of a new table |
//! | 9 | number of an older log that is also needed |
//!
//! Tags and numbers are varints. Strings are preceded by their length.

use crate::decode::Decoder;
use crate::error::{BYTEWISE, Error, LeftOut, Result};
use crate::file::ReadFile;
use crate::internal_key;
use crate::log::LogReader;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// LevelDB has levels 0 to 6.
pub const LEVELS: usize = 7;

/// A table's entry in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// Number of the file.
    pub number: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Smallest internal key.
    pub smallest: Vec<u8>,
    /// Largest internal key.
    pub largest: Vec<u8>,
}

/// The files of a database.
#[derive(Debug, Default)]
pub struct Manifest {
    /// The comparator's name.
    comparator: Option<String>,
    /// Logs with this number or a greater one are needed.
    pub log_number: u64,
    /// Number of one older log that is also needed.
    pub previous_log_number: u64,
    /// The tables of each level.
    pub levels: [Vec<TableMeta>; LEVELS],
    /// The unfinished write of a process that died.
    pub torn: Option<LeftOut>,
}

impl Manifest {
    /// Reads the manifest of a directory.
    pub fn read(directory: &Path) -> Result<Self> {
        let no_database = |reason: String| Error::NoDatabase { path: directory.to_path_buf(), reason };
        let current_path = directory.join("CURRENT");
        let current = match fs::read(&current_path) {
            Ok(current) => current,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(no_database("it has no file CURRENT".into()));
            }
            Err(error) => return Err(Error::io("read", &current_path, error)),
        };
        let name = current.strip_suffix(b"\n").and_then(|name| std::str::from_utf8(name).ok());
        let Some(name) = name.filter(|name| name.starts_with("MANIFEST-") && !name.contains('/')) else {
            let found = format!("\"{}\"", current[..current.len().min(100)].escape_ascii());
            return Err(Error::damage(
                &current_path,
                0,
                "the manifest's name in CURRENT",
                "MANIFEST-, a number and a newline",
                found,
            ));
        };
        let mut log = LogReader::new(ReadFile::open(directory.join(name))?);
        let mut manifest = Self::default();
        let mut is_empty = true;
        while let Some((record, offset)) = log.next()? {
            is_empty = false;
            if manifest.apply(&record).is_none() {
                let found = format!("{} invalid bytes", record.len());
                return Err(Error::damage(log.file().path(), offset, "an edit", "tags and their fields", found));
            }
        }
        if is_empty {
            return Err(Error::damage(log.file().path(), 0, "the manifest", "edits", "none"));
        }
        manifest.torn = log.torn();
        manifest.levels[1..].iter_mut().for_each(|level| {
            level.sort_by(|one, other| internal_key::compare(&one.smallest, &other.smallest));
        });
        manifest.check_comparator(directory)?;
        Ok(manifest)
    }

    fn check_comparator(&self, directory: &Path) -> Result<()> {
        match &self.comparator {
            Some(comparator) if comparator != BYTEWISE => {
                Err(Error::Comparator { path: directory.to_path_buf(), comparator: comparator.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Applies an edit; `None` if it is invalid.
    fn apply(&mut self, record: &[u8]) -> Option<()> {
        let mut decoder = Decoder::new(record);
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        while !decoder.is_empty() {
            match decoder.varint32()? {
                1 => self.comparator = Some(String::from_utf8_lossy(decoder.string()?).into_owned()),
                2 => self.log_number = decoder.varint64()?,
                3 | 4 => drop(decoder.varint64()?),
                5 => {
                    level(&mut decoder)?;
                    decoder.string()?;
                }
                6 => gone.push((level(&mut decoder)?, decoder.varint64()?)),
                7 => {
                    let level = level(&mut decoder)?;
                    let (number, bytes) = (decoder.varint64()?, decoder.varint64()?);
                    let [smallest, largest] = [decoder.string()?.to_vec(), decoder.string()?.to_vec()];
                    internal_key::user_key(&smallest).and(internal_key::user_key(&largest))?;
                    new.push((level, TableMeta { number, bytes, smallest, largest }));
                }
                9 => self.previous_log_number = decoder.varint64()?,
                _ => return None,
            }
        }
        // An edit may remove a table from one level and add it to another.
        for (level, number) in gone {
            self.levels[level].retain(|table| table.number != number);
        }
        for (level, table) in new {
            self.levels[level].push(table);
        }
        Some(())
    }
}

fn level(decoder: &mut Decoder<'_>) -> Option<usize> {
    let level = decoder.varint32()? as usize;
    (level < LEVELS).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_an_edit_or_an_error(bytes: Vec<u8>) {
            let _ = Manifest::default().apply(&bytes);
        }
    }

    #[test]
    fn edits_add_and_remove() {
        let key = internal_key::make(b"k", 7, true);
        let new = |level: u8, number: u8| [&[7, level, number, 100, 9][..], &key, &[9], &key].concat();
        let mut manifest = Manifest::default();
        let edit = [&[2, 5, 9, 4, 3, 8, 4, 99][..], &new(0, 3), &new(0, 4)].concat();
        assert!(manifest.apply(&edit).is_some());
        assert_eq!((manifest.log_number, manifest.previous_log_number, manifest.levels[0].len()), (5, 4, 2));
        // Table 3 goes from level 0 to level 1.
        assert!(manifest.apply(&[&[6, 0, 3][..], &new(1, 3)].concat()).is_some());
        assert_eq!((manifest.levels[0].len(), manifest.levels[1][0].number), (1, 3));
        assert!(manifest.apply(&new(7, 3)).is_none(), "there is no level 7");
        assert!(manifest.apply(&[8, 1]).is_none(), "there is no tag 8");
    }
}
