//! Finds the keyspace that `--keyspace` names.

use crate::arguments::MergeOperator;
use crate::failure::Failure;
use crate::keyspace_arguments::{Durability, InKeyspace};
use crate::unknown_operator::stand_in;
use alluvium::{Db, Error, Keyspace, KeyspaceOptions, ReadOnlyDb, Snapshot};

impl InKeyspace {
    /// Whether the command is about the default keyspace.
    pub fn is_default(&self) -> bool {
        matches!(self.keyspace.as_deref(), None | Some("default"))
    }

    /// The contents of the keyspace. It must exist.
    pub fn read(&self, db: &ReadOnlyDb) -> Result<Snapshot, Failure> {
        let Some(name) = &self.keyspace else { return Ok(db.snapshot()) };
        match db.keyspace(name, KeyspaceOptions::new())? {
            Some(found) => Ok(found),
            None => Err(unknown(name, db.keyspace_names()?)),
        }
    }

    /// The keyspace, opened for writing. It must exist.
    pub fn open_existing(&self, db: &Db) -> Result<Keyspace, Failure> {
        self.open_existing_with(db, None)
    }

    /// The same, with this merge operator.
    pub fn open_existing_with(&self, db: &Db, operator: Option<MergeOperator>) -> Result<Keyspace, Failure> {
        let Some(name) = self.keyspace.as_deref().filter(|_| !self.is_default()) else {
            return Ok(Keyspace::clone(db));
        };
        find(db, name, operator)
    }

    /// The keyspace, opened for writing, or created.
    pub fn open_or_create(&self, db: &Db) -> Result<Keyspace, Failure> {
        match &self.keyspace {
            Some(name) => open(db, name, KeyspaceOptions::new()),
            None => Ok(Keyspace::clone(db)),
        }
    }
}

/// The keyspace with a name. It must exist.
pub fn find(db: &Db, name: &str, operator: Option<MergeOperator>) -> Result<Keyspace, Failure> {
    open(db, name, options(operator).create_if_missing(false))
}

/// Opens a keyspace. If it has a merge operator that the command line does not have, a stand-in takes its place.
pub fn open(db: &Db, name: &str, mut options: KeyspaceOptions) -> Result<Keyspace, Failure> {
    let error = match db.keyspace(name, options.clone()) {
        Ok(keyspace) => return Ok(keyspace),
        Err(error) => error,
    };
    options.merge_operator = Some(stand_in(&error).ok_or(error)?);
    Ok(db.keyspace(name, options)?)
}

/// The options of a keyspace with this merge operator.
pub fn options(operator: Option<MergeOperator>) -> KeyspaceOptions {
    let mut options = KeyspaceOptions::new();
    options.merge_operator = operator.and_then(MergeOperator::for_store);
    options
}

/// The failure of a command that is about a keyspace that does not exist.
pub fn unknown(name: &str, existing: Vec<String>) -> Failure {
    Failure::Store(Error::NoKeyspace { keyspace: name.to_owned(), existing })
}

impl Durability {
    /// The same for a store.
    pub fn for_store(self) -> alluvium::Durability {
        match self {
            Self::Buffered => alluvium::Durability::Buffered,
            Self::Sync => alluvium::Durability::Sync,
            Self::Unlogged => alluvium::Durability::Unlogged,
        }
    }
}
