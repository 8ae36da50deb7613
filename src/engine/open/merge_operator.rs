//! The merge operator of a store that is being opened. The manifest has its name.

use crate::format::manifest_edit::KeyspaceRecord;
use crate::io::Storage;
use crate::log::Access;
use crate::manifest::ManifestState;
use crate::merge::operator::{self, named};
use crate::merge::{MergeOperator, MergeOperators};
use crate::util::error::NO_OPERATOR;
use crate::util::sync::Arc;
use crate::util::{Error, KeyspaceId, Result};

/// An error if the operator may not have its name.
pub(super) fn check_name(asked: Option<&Arc<dyn MergeOperator>>) -> Result<()> {
    asked.map_or(Ok(()), |asked| operator::check_name(&**asked))
}

/// The operator of the default keyspace: the one that the options ask for, or else the one with the stored name, if it
/// comes with the store.
///
/// # Errors
/// `Mismatch` if the store has another operator than the options ask for; for writers, also if it has one that is not
/// known. (Readers get the error for each key that has operands.)
pub(super) fn choose(
    storage: &dyn Storage,
    state: &ManifestState,
    asked: Option<&Arc<dyn MergeOperator>>,
    access: Access,
) -> Result<Option<Arc<dyn MergeOperator>>> {
    let stored = default_keyspace(state).map_or("", |record| &record.merge_operator);
    let mismatch = |asked: &str| Error::Mismatch {
        path: storage.path().to_path_buf(),
        what: "merge operator",
        stored: stored.to_owned(),
        asked: asked.to_owned(),
    };
    match asked {
        Some(asked) if stored.is_empty() || asked.name() == stored => Ok(Some(Arc::clone(asked))),
        Some(asked) => Err(mismatch(asked.name())),
        None if stored.is_empty() => Ok(None),
        None => match named(stored) {
            None if access == Access::Write => Err(mismatch(NO_OPERATOR)),
            found => Ok(found),
        },
    }
}

/// The record of the default keyspace with this operator, if the manifest does not have it yet.
pub(super) fn record(state: &ManifestState, operator: Option<&Arc<dyn MergeOperator>>) -> Option<KeyspaceRecord> {
    let (operator, record) = (operator?, default_keyspace(state)?);
    let merge_operator = operator.name().to_owned();
    (record.merge_operator != merge_operator).then(|| KeyspaceRecord { merge_operator, ..record.clone() })
}

/// The operators of a store that is opened for reading, with this one for the default keyspace. If there is none, because
/// the stored one is not known, its name is noted.
pub(super) fn of_reader(state: &ManifestState, operator: Option<Arc<dyn MergeOperator>>) -> Arc<MergeOperators> {
    let is_missing = operator.is_none();
    let operators = MergeOperators::new(operator);
    if let Some(record) = default_keyspace(state).filter(|record| is_missing && !record.merge_operator.is_empty()) {
        operators.note_missing(KeyspaceId::DEFAULT, &record.merge_operator);
    }
    operators
}

fn default_keyspace(state: &ManifestState) -> Option<&KeyspaceRecord> {
    state.keyspaces.iter().find(|record| record.id == KeyspaceId::DEFAULT)
}
