//! `import --from rocksdb`: ingests the column families of a RocksDB directory, each into a keyspace.

use super::rocksdb_source::Source;
use super::too_long_text;
use crate::arguments::Common;
use crate::commands::loader::{Loaded, Loader, add_final_statistics};
use crate::failure::Failure;
use crate::import_arguments::Import;
use crate::input::Pair;
use crate::keyspace_arguments::InKeyspace;
use crate::progress::Progress;
use crate::report::Report;
use alluvium::limits::KEY_BYTES_MAX;
use alluvium::{Db, Error, Keyspace};
use std::time::Instant;

/// The longest name of a keyspace, bytes.
const NAME_BYTES_MAX: usize = 255;
/// How much of a longer name an error message shows, in characters.
const NAME_SHOWN: usize = 32;

/// Imports the column families and prints a report.
pub fn run(common: &Common, import: &Import) -> Result<(), Failure> {
    if import.skip_damaged {
        let text = "--skip-damaged is for databases of LevelDB; a damaged database of RocksDB needs a tool of RocksDB";
        return Err(Failure::Usage(text.into()));
    }
    let source = Source::open(&import.source, &import.column_families)?;
    check_targets(import, source.families())?;
    let files = source.files()?;
    let progress = Progress::of_about_pairs(source.about_pairs());
    let db = common.open_or_create()?;
    let started = Instant::now();
    let mut importer =
        Importer { db: &db, import, source: &source, progress: &progress, loaded: Loaded::default(), long_keys: 0 };
    let outcome = source.families().iter().enumerate().try_for_each(|(finished, family)| {
        importer.import(family).map_err(|failure| explain(failure, family, finished))
    });
    let (loaded, long_keys) = (importer.loaded, importer.long_keys);
    progress.finish();
    outcome?;
    let mut report = Report::new();
    Loaded { elapsed: started.elapsed(), ..loaded }.add_to(&mut report);
    report
        .count("column_families", "column families", source.families().len() as u64)
        .count("tables", "table files read", files.tables)
        .count("logs", "log files read", files.logs)
        .size("source_bytes", "bytes in these files", files.bytes)
        .count("long_keys", "keys skipped as too long", long_keys);
    add_final_statistics(&mut report, &db, import.settle)?;
    db.close()?;
    report.print(common.json)
}

/// Fails if a column family has no keyspace to go to.
fn check_targets(import: &Import, families: &[String]) -> Result<(), Failure> {
    if import.within.keyspace.is_some() {
        if let [_] = families {
            return Ok(());
        }
        return Err(Failure::Usage(format!(
            "--keyspace takes the pairs of one column family, and {} has {}; choose one with --column-family",
            import.source.display(),
            families.len()
        )));
    }
    let Some(family) = families.iter().find(|family| !(1..=NAME_BYTES_MAX).contains(&family.len())) else {
        return Ok(());
    };
    let shown: String = family.chars().take(NAME_SHOWN).collect();
    Err(Failure::Usage(format!(
        "no keyspace can have the name of the column family that begins with {shown:?}: it has {} bytes, and names of keyspaces 1 to \
         {NAME_BYTES_MAX}; import each column family alone, this one with --keyspace",
        family.len()
    )))
}

/// Imports column families one after the other.
struct Importer<'a> {
    db: &'a Db,
    import: &'a Import,
    source: &'a Source,
    progress: &'a Progress,
    /// What finished column families had.
    loaded: Loaded,
    long_keys: u64,
}

impl Importer<'_> {
    /// Ingests a column family. After an error none of its pairs is in the store.
    fn import(&mut self, family: &str) -> Result<(), Failure> {
        let keyspace = self.keyspace(family)?;
        let is_empty = match keyspace.is_empty() {
            // Its first value needs an operator of another program.
            Err(Error::MergeOperands { .. }) => false,
            known => known?,
        };
        if !is_empty {
            let name = keyspace.name();
            self.progress.say(&format!(
                "alluvium: note: the keyspace {name:?} has pairs already; those with keys of the column family {family:?} are replaced"
            ));
        }
        let mut loader = Loader::of_sorted(self.db, keyspace, self.progress)?.after(self.loaded);
        let (skips, long_keys) = (self.import.skip_long_keys, &mut self.long_keys);
        self.source.visit(family, &mut |key, value| {
            if key.len() <= KEY_BYTES_MAX {
                return loader.add(Pair { key: key.to_vec(), value: value.to_vec() });
            }
            *long_keys += 1;
            let message = format!("{}; --skip-long-keys skips such keys", too_long_text(key));
            if skips { Ok(()) } else { Err(Failure::Source { message, is_damaged: false }) }
        })?;
        loader.finish()?;
        self.loaded = loader.loaded();
        Ok(())
    }

    /// The keyspace that a column family goes to, opened or created.
    fn keyspace(&self, family: &str) -> Result<Keyspace, Failure> {
        let name = self.import.within.keyspace.as_deref().unwrap_or(family);
        let within = InKeyspace { keyspace: Some(name.to_owned()) };
        if within.is_default() { Ok(Keyspace::clone(self.db)) } else { within.open_or_create(self.db) }
    }
}

/// Adds to the message what is in the store now, and how to continue.
fn explain(failure: Failure, family: &str, finished: usize) -> Failure {
    match failure {
        Failure::Source { message, is_damaged } => {
            let others = match finished {
                0 => String::new(),
                1 => "; the column family before it is".to_string(),
                _ => format!("; the {finished} column families before it are"),
            };
            let message = format!("{message}\nnothing of the column family {family:?} is loaded{others}");
            Failure::Source { message, is_damaged }
        }
        other => other,
    }
}
