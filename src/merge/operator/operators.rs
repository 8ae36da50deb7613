//! The merge operators of a store. Any thread.

use super::MergeOperator;
use crate::util::KeyspaceId;
use crate::util::sync::{Arc, KeyspaceMap};

/// The merge operator of each keyspace. Those of other keyspaces than the default one are added when they are known.
#[derive(Debug, Default)]
pub struct MergeOperators {
    default: Option<Arc<dyn MergeOperator>>,
    others: KeyspaceMap<Arc<dyn MergeOperator>>,
    /// The names of operators that the store remembers and that were not known when it was opened.
    missing: KeyspaceMap<Arc<str>>,
}

impl MergeOperators {
    /// With this operator for the default keyspace.
    pub fn new(default: Option<Arc<dyn MergeOperator>>) -> Arc<Self> {
        Arc::new(Self { default, ..Self::default() })
    }

    /// Calls `f` with the operator of a keyspace, `None` if it has none or it is not known.
    #[inline]
    pub fn with<R>(&self, keyspace: KeyspaceId, f: impl FnOnce(Option<&dyn MergeOperator>) -> R) -> R {
        if keyspace == KeyspaceId::DEFAULT {
            f(self.default.as_deref())
        } else {
            self.others.with(keyspace, |operator| f(operator.map(|operator| &**operator)))
        }
    }

    /// The operator of a keyspace, `None` if it has none or it is not known.
    pub fn get(&self, keyspace: KeyspaceId) -> Option<Arc<dyn MergeOperator>> {
        if keyspace == KeyspaceId::DEFAULT { self.default.clone() } else { self.others.get(keyspace) }
    }

    /// Notes the name of an operator that is not known, for messages.
    pub fn note_missing(&self, keyspace: KeyspaceId, name: &str) {
        self.missing.insert(keyspace, name.into());
    }

    /// The name of the operator of a keyspace that was noted as not known. One may have been added since.
    pub fn missing(&self, keyspace: KeyspaceId) -> Option<String> {
        self.missing.with(keyspace, |name| name.map(|name| name.to_string()))
    }

    /// Adds the operator of a keyspace, which is not the default one.
    pub fn add(&self, keyspace: KeyspaceId, operator: Arc<dyn MergeOperator>) {
        debug_assert_ne!(keyspace, KeyspaceId::DEFAULT, "its operator does not change");
        self.others.insert(keyspace, operator);
    }
}
