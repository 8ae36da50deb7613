//! Opens a store as the common arguments say.

use crate::arguments::{Common, Component, Compression, MergeOperator};
use crate::bytes;
use crate::failure::Failure;
use crate::unknown_operator::stand_in;
use alluvium::{
    ChangeRetention, Db, DiskComponent, Durability, LevelsOptions, Options, ReadOnlyDb, WriteOptions, merge_operators,
};
use skipfs::Superblock;
use skipfs::format::key;
use std::path::Path;
use std::sync::Arc;

impl Common {
    /// The directory of the store; an error if none is given.
    pub fn directory(&self) -> Result<&Path, Failure> {
        self.db.as_deref().ok_or_else(|| Failure::Usage("no store given: pass --db DIR or set ALLUVIUM_DB".to_string()))
    }

    /// Opens a store for reading. This works while another process writes, and on a read-only file system.
    pub fn open_to_read(&self) -> Result<ReadOnlyDb, Failure> {
        Ok(ReadOnlyDb::open(self.directory()?, self.options(false))?)
    }

    /// Opens an existing store.
    pub fn open_existing(&self) -> Result<Db, Failure> {
        self.open(self.options(false))
    }

    /// The same, with a limit on background writes from the start, because due work begins as soon as the store is
    /// open.
    pub fn open_existing_limited(&self, background_write_limit: Option<u64>) -> Result<Db, Failure> {
        self.open(self.options(false).background_write_limit(background_write_limit))
    }

    /// Opens an existing store, which keeps so much of what is written from now on.
    pub fn open_to_keep_changes(&self, retention: ChangeRetention) -> Result<Db, Failure> {
        self.open(self.options(false).change_retention(retention))
    }

    /// Opens an existing store to merge operands into its pairs, with this merge operator. One with a file system is
    /// refused.
    pub fn open_to_merge(&self, operator: Option<MergeOperator>) -> Result<Db, Failure> {
        let mut options = self.options(false);
        options.merge_operator = operator.and_then(MergeOperator::for_store);
        self.without_file_system(self.open(options)?)
    }

    /// Opens an existing store to change its pairs. One with a file system is refused.
    pub fn open_to_change(&self) -> Result<Db, Failure> {
        self.refuse_other_order()?;
        self.without_file_system(self.open_existing()?)
    }

    /// Opens a store for pairs, or creates it. One with a file system is refused.
    pub fn open_or_create(&self) -> Result<Db, Failure> {
        self.refuse_other_order()?;
        self.without_file_system(self.open(self.options(true))?)
    }

    /// Fails if the store holds a file system. Other pairs would damage it.
    fn without_file_system(&self, db: Db) -> Result<Db, Failure> {
        if !db.get(key::superblock())?.is_some_and(|bytes| Superblock::is_one(&bytes)) {
            return Ok(db);
        }
        let path = self.directory()?.display();
        Err(Failure::Usage(format!(
            "the store at {path} holds a file system, which this would damage; `alluvium mount DIR {path}` gives access to \
             its files; choose another store for pairs"
        )))
    }

    /// Opens a store for writing. Says on the error output what was lost, because the next opening does not know it.
    fn open(&self, options: Options) -> Result<Db, Failure> {
        let directory = self.directory()?;
        let db = match Db::open(directory, options.clone()) {
            Ok(db) => db,
            Err(error) => {
                let mut options = options;
                options.merge_operator = Some(stand_in(&error).ok_or(error)?);
                Db::open(directory, options)?
            }
        };
        let discarded = db.stats().log_discarded_writes;
        if discarded > 0 {
            eprintln!("warning: at least {discarded} writes behind a gap in the log were discarded");
        }
        Ok(db)
    }

    /// Fails if the store was written through the LevelDB interface with a custom comparator. Its keys are stored in a
    /// transformed form, so plain keys must not be written to it.
    pub fn refuse_other_order(&self) -> Result<(), Failure> {
        let directory = self.directory()?;
        if let Ok(order) = std::fs::read(directory.join("COMPARATOR")) {
            return Err(Failure::Usage(format!(
                "{} uses a custom comparator, \"{}\": only the program that defines it can write to the store, and \
                 commands that read show keys in their stored form",
                directory.display(),
                order.escape_ascii()
            )));
        }
        Ok(())
    }

    /// The options for a conversion to a component.
    pub fn options_for(&self, component: Component) -> Options {
        self.options(false).disk_component(component.for_store())
    }

    fn options(&self, create_if_missing: bool) -> Options {
        let durability = if self.sync { Durability::Sync } else { Durability::Buffered };
        Options::new()
            .memory_budget(self.memory)
            .durability(durability)
            .disk_component(self.component.map(Component::for_store))
            .create_if_missing(create_if_missing)
            .force_cut(self.force_cut)
    }

    /// The options of the command's writes: `--sync` holds for keyspaces with a durability of their own, too.
    pub fn write_options(&self) -> WriteOptions {
        WriteOptions::new().durability(self.sync.then_some(Durability::Sync))
    }

    /// Decodes a key or value from the command line.
    pub fn argument(&self, what: &str, text: &str) -> Result<Vec<u8>, Failure> {
        if self.hex {
            bytes::from_hex(text.as_bytes()).map_err(|why| Failure::Usage(format!("{what} {text:?}: {why}")))
        } else {
            Ok(text.as_bytes().to_vec())
        }
    }
}

impl Compression {
    /// The same for a store.
    pub fn for_store(self) -> alluvium::Compression {
        match self {
            Self::None => alluvium::Compression::None,
            Self::Lz4 => alluvium::Compression::Lz4,
            Self::Zstd => alluvium::Compression::Zstd,
        }
    }
}

impl MergeOperator {
    /// The same for a store.
    pub fn for_store(self) -> Option<Arc<dyn alluvium::MergeOperator>> {
        merge_operators::named(match self {
            Self::Add => "alluvium.add",
            Self::Append => "alluvium.append",
            Self::Bitor => "alluvium.bitor",
            Self::Max => "alluvium.max",
            Self::Min => "alluvium.min",
        })
    }
}

impl Component {
    /// The component with its usual options.
    fn for_store(self) -> DiskComponent {
        match self {
            Self::Trunk => DiskComponent::Trunk,
            Self::Leveled => DiskComponent::Levels(LevelsOptions::leveled()),
            Self::Tiered => DiskComponent::Levels(LevelsOptions::tiered()),
            Self::Skip => DiskComponent::Levels(LevelsOptions::skip()),
        }
    }

    /// The same for workloads.
    pub fn for_bench(self) -> alluvium_bench::Component {
        match self {
            Self::Trunk => alluvium_bench::Component::Trunk,
            Self::Leveled => alluvium_bench::Component::Leveled,
            Self::Tiered => alluvium_bench::Component::Tiered,
            Self::Skip => alluvium_bench::Component::Skip,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::arguments::Arguments;
    use clap::Parser;

    /// Regression test: the limit was set only after the store was open, when much of the work had begun.
    #[test]
    fn a_write_limit_applies_from_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let arguments = ["alluvium".as_ref(), "--db".as_ref(), path.as_os_str(), "compact".as_ref()];
        let common = Arguments::parse_from(arguments).common;
        common.open_or_create().unwrap().close().unwrap();
        for limit in [None, Some(5000)] {
            let db = common.open_existing_limited(limit).unwrap();
            assert_eq!(db.stats().background_write_limit, limit);
            db.close().unwrap();
        }
    }
}
